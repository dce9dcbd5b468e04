// Package model reads model files: GGUF through a memory map, tokenizers, chat templates. It turns a file into an operator graph plus
// weight ranges, by one small description per family.
package model

import (
	"errors"

	"slicescheduler/gmg"
	"slicescheduler/model/gguf"
	"slicescheduler/model/tokenizer"
)

// Errors of model files. They are wrapped with file, offset and reason.
var (
	ErrFormat      = gguf.ErrFormat
	ErrUnsupported = gguf.ErrUnsupported
	ErrNoTemplate  = errors.New("model has no chat template")
)

// Model is an opened model: graph, tokenizer, template and mapped weights. It is safe for concurrent use; Close unmaps the weights.
type Model struct {
	Name      string
	Path      string
	Graph     *gmg.Graph
	Tokenizer Tokenizer
	// Template renders chats; nil for base models, in which case chat fails with ErrNoTemplate unless one is given.
	Template *ChatTemplate
	// Parameters is the number of weights, for listings.
	Parameters int64
	FileBytes  int64

	weights     weightSource
	templateErr error // why the file's template could not be parsed
}

// weightSource finds a weight's bytes.
type weightSource interface {
	weight(stage int, name string) (gmg.Weight, []byte, error)
	close() error
}

// Weight returns a weight of a stage and its bytes in the file's own format. The bytes are mapped memory: valid until Close, never to be written.
func (m *Model) Weight(stage int, name string) (gmg.Weight, []byte, error) {
	return m.weights.weight(stage, name)
}

// Close unmaps the weights. No buffer loaded from them may be in use.
func (m *Model) Close() error { return m.weights.close() }

// EncodeOptions says how text becomes tokens.
type EncodeOptions = tokenizer.Options

// Tokenizer turns text into tokens and back. Implementations are safe for concurrent use.
type Tokenizer interface {
	Encode(text string, o EncodeOptions) []int32
	// Piece returns a token's bytes. Control tokens give their text when special is true, else nothing.
	Piece(id int32, special bool) []byte
	VocabSize() int
	BOS() int32 // -1 when there is none
	EOS() int32
	// IsEnd says whether generation ends with this token.
	IsEnd(id int32) bool
}

// Message is one message of a chat.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	Name    string `json:"name,omitempty"`
	// ToolCalls are the calls that an assistant's message makes; ToolCallID says which call a tool's message answers.
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a call of a tool. Arguments are its JSON object.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
