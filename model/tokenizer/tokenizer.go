// Package tokenizer turns text into tokens and back: byte-level BPE (GPT-2, Llama 3, Qwen 2, SmolLM) and SentencePiece-style merging by score
// (Llama 2, Gemma). Encoding is near-linear in the text's length. Special tokens are found apart from ordinary text, and ordinary text can never
// become a control token.
package tokenizer

import (
	"errors"
	"fmt"
	"iter"
)

// Errors of vocabularies, wrapped with the reason.
var (
	ErrVocabulary  = errors.New("bad vocabulary")
	ErrUnsupported = errors.New("tokenizer not supported")
)

// Type is a token's type as numbered in GGUF files.
type Type uint8

// Types of tokens.
const (
	Normal      Type = 1
	Unknown     Type = 2
	Control     Type = 3 // matched only where special tokens are parsed
	UserDefined Type = 4 // matched in all text, before merging
	Unused      Type = 5
	Byte        Type = 6 // "<0xHH>": one byte that no other token covers
)

// Options says how text becomes tokens.
type Options struct {
	// AddSpecial adds BOS (and EOS) where the model's file asks for it, unless the text already begins (ends) with it.
	AddSpecial bool
	// ParseSpecial matches special tokens in the text. User text is encoded without, so that "<|im_end|>" typed by a user stays literal.
	ParseSpecial bool
	// Literal lists pieces of the text, ascending and apart, in which special tokens stay literal although ParseSpecial is set.
	Literal []Span
}

// Span is a piece [From, To) of a text, in bytes.
type Span struct{ From, To int }

// Config is all that a tokenizer is made of.
type Config struct {
	Model                          string                 // "gpt2" for byte-level BPE, "llama" for SentencePiece
	Pre                            string                 // BPE's pre-tokenizer
	Tokens                         iter.Seq2[int, []byte] // texts in the order of their ids
	Count                          int
	Types                          []int64                // of each token; nil: all Normal
	Scores                         []float32              // SentencePiece: of each token
	Merges                         iter.Seq2[int, []byte] // BPE: "left right" by rank
	BOS                            int32                  // -1 when there is none
	EOS                            int32
	Unk                            int32
	Ends                           []int32 // further tokens that end a generation
	AddBOS, AddEOS, AddSpacePrefix bool
}

// Tokenizer is safe for concurrent use.
type Tokenizer struct {
	cfg     Config // without what its iterators read
	vocab   *vocabulary
	special specials
	scheme  scheme
	ends    map[int32]bool
}

// scheme encodes ordinary text, in which no special token is left, and says what a normal token's text stands for.
type scheme interface {
	// encode appends the tokens of text. afterSpecial says that a special token, or nothing, comes before it.
	encode(dst []int32, text string, afterSpecial bool) []int32
}

// endTexts are the texts of tokens that end a generation whatever a file says of them. A file may call them user-defined; they are control tokens.
var endTexts = [...]string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>",
	"<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>"}

// New builds a tokenizer. It copies what it needs of the configuration's texts.
func New(c Config) (*Tokenizer, error) {
	if c.Types != nil && len(c.Types) != c.Count {
		return nil, fmt.Errorf("%w: %d token types for %d tokens", ErrVocabulary, len(c.Types), c.Count)
	}
	for _, id := range append([]int32{c.BOS, c.EOS, c.Unk}, c.Ends...) {
		if id < -1 || int(id) >= c.Count {
			return nil, fmt.Errorf("%w: special token %d is not among %d tokens", ErrVocabulary, id, c.Count)
		}
	}
	t := &Tokenizer{vocab: newVocabulary(c), ends: make(map[int32]bool)}
	var err error
	switch c.Model {
	case "gpt2":
		t.scheme, err = newBPE(c, t.vocab)
	case "llama":
		t.scheme, err = newSPM(c, t.vocab)
	default:
		err = fmt.Errorf("%w: tokenizer model %q; gpt2 and llama can be read", ErrUnsupported, c.Model)
	}
	if err != nil {
		return nil, err
	}
	t.markEnds(c)
	t.special = newSpecials(t.vocab)
	c.Tokens, c.Merges, c.Types, c.Scores = nil, nil, nil, nil
	t.cfg = c
	return t, nil
}

// markEnds collects the tokens that end a generation.
func (t *Tokenizer) markEnds(c Config) {
	for _, id := range append([]int32{c.EOS}, c.Ends...) {
		if id >= 0 {
			t.ends[id] = true
		}
	}
	wanted := make(map[string]bool, len(endTexts))
	for _, text := range endTexts {
		wanted[text] = true
	}
	for id, typ := range t.vocab.types {
		if typ == Normal || typ == Byte || !wanted[t.vocab.text(int32(id))] {
			continue
		}
		t.ends[int32(id)] = true
		t.vocab.types[id] = Control
	}
}

// Encode returns the text's tokens.
func (t *Tokenizer) Encode(text string, o Options) []int32 {
	dst := make([]int32, 0, len(text)/3+8)
	literal := o.Literal
	afterSpecial := true
	for from := 0; from < len(text); {
		start, end, id := t.special.next(text, from, o.ParseSpecial, literal)
		if start > from {
			dst = t.scheme.encode(dst, text[from:start], afterSpecial)
			afterSpecial = false
		}
		if id >= 0 {
			dst = append(dst, id)
			afterSpecial = true
		}
		from = end
		for len(literal) > 0 && literal[0].To <= from {
			literal = literal[1:]
		}
	}
	if !o.AddSpecial {
		return dst
	}
	if t.cfg.AddBOS && t.cfg.BOS >= 0 && (len(dst) == 0 || dst[0] != t.cfg.BOS) {
		dst = append([]int32{t.cfg.BOS}, dst...)
	}
	if t.cfg.AddEOS && t.cfg.EOS >= 0 && (len(dst) == 0 || dst[len(dst)-1] != t.cfg.EOS) {
		dst = append(dst, t.cfg.EOS)
	}
	return dst
}

// Piece returns a token's bytes; nothing for an id outside the vocabulary. Control tokens give their text when special is true, else nothing.
func (t *Tokenizer) Piece(id int32, special bool) []byte {
	if id < 0 || int(id) >= len(t.vocab.types) {
		return nil
	}
	if typ := t.vocab.types[id]; !special && (typ == Control || typ == Unknown) {
		return nil
	}
	return []byte(t.vocab.text(id))
}

// Decode returns the bytes of several tokens. Where encoding puts a space before text, decoding takes it away again.
func (t *Tokenizer) Decode(ids []int32, special bool) []byte {
	var out []byte
	for _, id := range ids {
		out = append(out, t.Piece(id, special)...)
	}
	if t.cfg.Model == "llama" && t.cfg.AddSpacePrefix && len(out) > 0 && out[0] == ' ' {
		out = out[1:]
	}
	return out
}

// VocabSize returns the number of tokens.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.types) }

// BOS returns the token that begins a text, -1 when there is none.
func (t *Tokenizer) BOS() int32 { return t.cfg.BOS }

// EOS returns the token that ends a text, -1 when there is none.
func (t *Tokenizer) EOS() int32 { return t.cfg.EOS }

// IsEnd says whether generation ends with this token.
func (t *Tokenizer) IsEnd(id int32) bool { return t.ends[id] }

// HasSpecial says whether the text holds the text of a control token.
func (t *Tokenizer) HasSpecial(text string) bool {
	_, _, found := t.FindSpecial(text, 0)
	return found
}

// FindSpecial returns the first control token's text in text at or after from.
func (t *Tokenizer) FindSpecial(text string, from int) (start, end int, found bool) {
	for from < len(text) {
		start, end, id := t.special.next(text, from, true, nil)
		if id >= 0 && t.vocab.types[id] != UserDefined {
			return start, end, true
		}
		from = end
	}
	return 0, 0, false
}
