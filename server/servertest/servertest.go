// Package servertest checks a server as its users see it, through the OpenAI client. The same checks run against fakes and real nodes.
package servertest

import (
	"context"
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const maxTokens = 8

// Run checks the server at baseURL (without /v1) with a tenant that is ready, has a chat template and needs no key.
func Run(t *testing.T, baseURL, tenant string) {
	client := openai.NewClient(option.WithBaseURL(baseURL+"/v1"), option.WithAPIKey("any"), option.WithMaxRetries(0))
	t.Run("chat", func(t *testing.T) { chat(t, &client, tenant) })
	t.Run("chat streamed", func(t *testing.T) { chatStream(t, &client, tenant) })
	t.Run("completions", func(t *testing.T) { completions(t, &client, tenant) })
	t.Run("completions streamed", func(t *testing.T) { completionStream(t, &client, tenant) })
	t.Run("models", func(t *testing.T) { models(t, &client, tenant) })
	t.Run("errors", func(t *testing.T) { refusals(t, &client, tenant) })
}

func chatParams(tenant string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: tenant, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello.")},
		MaxCompletionTokens: openai.Int(maxTokens), Temperature: openai.Float(0), Logprobs: openai.Bool(true), TopLogprobs: openai.Int(1), N: openai.Int(2),
	}
}

func chat(t *testing.T, client *openai.Client, tenant string) {
	a, err := client.Chat.Completions.New(t.Context(), chatParams(tenant))
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Choices) != 2 || a.Model != tenant {
		t.Fatalf("got %s", a.RawJSON())
	}
	for _, c := range a.Choices {
		if c.FinishReason == "" || c.Message.Role != "assistant" || len(c.Logprobs.Content) == 0 {
			t.Errorf("choice %s", c.RawJSON())
		}
	}
	if a.Choices[0].Message.Content != a.Choices[1].Message.Content {
		t.Errorf("greedy choices differ: %s", a.RawJSON())
	}
	if a.Usage.PromptTokens == 0 || a.Usage.TotalTokens != a.Usage.PromptTokens+a.Usage.CompletionTokens {
		t.Errorf("usage %s", a.Usage.RawJSON())
	}
}

func chatStream(t *testing.T, client *openai.Client, tenant string) {
	whole, err := client.Chat.Completions.New(t.Context(), chatParams(tenant))
	if err != nil {
		t.Fatal(err)
	}
	p := chatParams(tenant)
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), p)
	defer stream.Close()
	texts, finishes, last := map[int64]string{}, map[int64]int{}, openai.ChatCompletionChunk{}
	for stream.Next() {
		last = stream.Current()
		for _, c := range last.Choices {
			texts[c.Index] += c.Delta.Content
			if c.FinishReason != "" {
				finishes[c.Index]++
			}
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range whole.Choices {
		if texts[c.Index] != c.Message.Content || finishes[c.Index] != 1 {
			t.Errorf("choice %d streamed %q with %d finishes, whole is %q", c.Index, texts[c.Index], finishes[c.Index], c.Message.Content)
		}
	}
	if len(last.Choices) != 0 || last.Usage.CompletionTokens == 0 {
		t.Errorf("last chunk %s has no usage of its own", last.RawJSON())
	}
}

func completionParams(tenant string) openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model: openai.CompletionNewParamsModel(tenant), Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: []string{"Once", "Once"}},
		MaxTokens: openai.Int(maxTokens), Temperature: openai.Float(0), Logprobs: openai.Int(1),
	}
}

func completions(t *testing.T, client *openai.Client, tenant string) {
	a, err := client.Completions.New(t.Context(), completionParams(tenant))
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Choices) != 2 || a.Choices[0].Text != a.Choices[1].Text {
		t.Fatalf("got %s", a.RawJSON())
	}
	for _, c := range a.Choices {
		if n := len(c.Logprobs.Tokens); c.FinishReason == "" || n == 0 || n != len(c.Logprobs.TextOffset) || c.Logprobs.TextOffset[0] != 0 {
			t.Errorf("choice %s", c.RawJSON())
		}
	}
}

func completionStream(t *testing.T, client *openai.Client, tenant string) {
	whole, err := client.Completions.New(t.Context(), completionParams(tenant))
	if err != nil {
		t.Fatal(err)
	}
	stream := client.Completions.NewStreaming(t.Context(), completionParams(tenant))
	defer stream.Close()
	texts := map[int64]string{}
	for stream.Next() {
		for _, c := range stream.Current().Choices {
			texts[c.Index] += c.Text
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range whole.Choices {
		if texts[c.Index] != c.Text {
			t.Errorf("choice %d streamed %q, whole is %q", c.Index, texts[c.Index], c.Text)
		}
	}
}

func models(t *testing.T, client *openai.Client, tenant string) {
	page, err := client.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range page.Data {
		found = found || m.ID == tenant
	}
	if m, err := client.Models.Get(t.Context(), tenant); err != nil || m.ID != tenant || !found {
		t.Errorf("got %v, %v; listed: %v", m, err, found)
	}
}

func refusals(t *testing.T, client *openai.Client, tenant string) {
	ask := func(ctx context.Context, change func(*openai.ChatCompletionNewParams)) *openai.Error {
		p := chatParams(tenant)
		change(&p)
		_, err := client.Chat.Completions.New(ctx, p)
		var e *openai.Error
		if !errors.As(err, &e) {
			t.Fatalf("got %v, want an error of the API", err)
		}
		return e
	}
	if e := ask(t.Context(), func(p *openai.ChatCompletionNewParams) { p.Model = "no-such-tenant" }); e.StatusCode != 404 || e.Code != "model_not_found" {
		t.Errorf("unknown tenant: %v", e)
	}
	if e := ask(t.Context(), func(p *openai.ChatCompletionNewParams) { p.Temperature = openai.Float(-1) }); e.StatusCode != 400 || e.Param != "temperature" {
		t.Errorf("negative temperature: %v", e)
	}
	bias := map[string]int64{"2000000000": 1}
	if e := ask(t.Context(), func(p *openai.ChatCompletionNewParams) { p.LogitBias = bias }); e.StatusCode != 400 || e.Param != "logit_bias" {
		t.Errorf("bias beyond the vocabulary: %v", e)
	}
}
