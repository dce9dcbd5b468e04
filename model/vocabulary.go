package model

import (
	"errors"
	"fmt"
	"math"

	"slicescheduler/model/gguf"
	"slicescheduler/model/tokenizer"
)

// readTokenizer builds a file's tokenizer. rows is the number of rows of the embedding: no token may lie beyond.
func readTokenizer(f *gguf.File, rows int) (*tokenizer.Tokenizer, error) {
	const prefix = "tokenizer.ggml."
	kind, _ := f.String(prefix + "model")
	tokens, ok := f.Strings(prefix + "tokens")
	if !ok || tokens.Len() == 0 || tokens.Len() > rows {
		return nil, f.Error(prefix+"tokens", fmt.Errorf("%w: 1 to %d strings are needed, one for each row of the embedding", ErrFormat, rows))
	}
	c := tokenizer.Config{Model: kind, Tokens: tokens.All(), Count: tokens.Len()}
	c.Pre, _ = f.String(prefix + "pre")
	c.Types, _ = f.Ints(prefix + "token_type")
	c.Scores, _ = f.Floats(prefix + "scores")
	if merges, ok := f.Strings(prefix + "merges"); ok {
		c.Merges = merges.All()
	}
	sentencePiece := kind == "llama"
	none := int32(-1)
	def := func(id int32) int32 {
		if sentencePiece {
			return id
		}
		return none
	}
	c.Unk = tokenID(f, prefix+"unknown_token_id", def(0))
	c.BOS = tokenID(f, prefix+"bos_token_id", def(1))
	c.EOS = tokenID(f, prefix+"eos_token_id", def(2))
	for _, key := range [...]string{"eot_token_id", "eom_token_id"} {
		if id := tokenID(f, prefix+key, none); id != none {
			c.Ends = append(c.Ends, id)
		}
	}
	c.AddBOS = flag(f, prefix+"add_bos_token", sentencePiece || c.Pre == "llama-bpe")
	c.AddEOS = flag(f, prefix+"add_eos_token", false)
	c.AddSpacePrefix = flag(f, prefix+"add_space_prefix", sentencePiece)
	t, err := tokenizer.New(c)
	if errors.Is(err, tokenizer.ErrUnsupported) {
		return nil, fmt.Errorf("%s: %w: %w", f.Path(), ErrUnsupported, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", f.Path(), ErrFormat, err)
	}
	return t, nil
}

// tokenID returns a key's token; a number that no token can have becomes one that the tokenizer refuses.
func tokenID(f *gguf.File, key string, def int32) int32 {
	n, ok := f.Int(key)
	if !ok {
		return def
	}
	if n < 0 || n > math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(n)
}

func flag(f *gguf.File, key string, def bool) bool {
	if b, ok := f.Bool(key); ok {
		return b
	}
	return def
}
