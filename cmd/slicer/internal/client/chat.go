package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ErrBrokenStream is an answer that ended without saying why.
var ErrBrokenStream = errors.New("the answer broke off")

// Message is one message of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ChatRequest asks a tenant for the next message. Nil fields take the node's defaults.
type ChatRequest struct {
	Model       string    `json:"model"` // the tenant
	Messages    []Message `json:"messages"`
	Temperature *float64  `json:"temperature,omitempty"`
	Seed        *int64    `json:"seed,omitempty"`
	MaxTokens   *int      `json:"max_completion_tokens,omitempty"`
}

// ChatResult is how an answer ended.
type ChatResult struct {
	Text         string
	FinishReason string
	PromptTokens int
	Tokens       int
}

// chunk is one event of a streamed answer.
type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// maxEventBytes bounds one event of a stream.
const maxEventBytes = 8 << 20

// Chat streams an answer: onText gets each piece as it comes. Ending ctx cancels the request at the node.
func (c *Client) Chat(ctx context.Context, r ChatRequest, onText func(string)) (ChatResult, error) {
	body := struct {
		ChatRequest
		Stream        bool            `json:"stream"`
		StreamOptions map[string]bool `json:"stream_options"`
	}{r, true, map[string]bool{"include_usage": true}}
	resp, err := c.do(ctx, http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		return ChatResult{}, err
	}
	defer resp.Body.Close()
	result, err := readStream(resp.Body, onText)
	if err != nil && ctx.Err() != nil {
		return result, ctx.Err()
	}
	return result, err
}

// readStream reads server-sent events up to [DONE].
func readStream(body io.Reader, onText func(string)) (ChatResult, error) {
	var result ChatResult
	var text strings.Builder
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEventBytes)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data:")
		if !isData {
			continue
		}
		if data = strings.TrimSpace(data); data == "[DONE]" {
			result.Text = text.String()
			return result, nil
		}
		var ch chunk
		if err := json.Unmarshal([]byte(data), &ch); err != nil {
			return result, fmt.Errorf("%w: %w", ErrBrokenStream, err)
		}
		if ch.Error != nil {
			return result, fmt.Errorf("%w: %s", ErrBrokenStream, ch.Error.Message)
		}
		for _, choice := range ch.Choices {
			if choice.Delta.Content != "" {
				text.WriteString(choice.Delta.Content)
				onText(choice.Delta.Content)
			}
			if choice.FinishReason != "" {
				result.FinishReason = choice.FinishReason
			}
		}
		if ch.Usage != nil {
			result.PromptTokens, result.Tokens = ch.Usage.PromptTokens, ch.Usage.CompletionTokens
		}
	}
	result.Text = text.String()
	if err := lines.Err(); err != nil {
		return result, fmt.Errorf("%w: %w", ErrBrokenStream, err)
	}
	return result, ErrBrokenStream
}
