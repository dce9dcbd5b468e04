package gpuworker

import (
	"errors"
	"fmt"
)

// ErrBadBatch is returned for a step that doesn't fit the slice it is given to.
var ErrBadBatch = errors.New("invalid batch")

// Validate checks a step against the slice that is to run it: every index within its bounds, so that a device can run it without looking. It allocates
// nothing for a good batch.
func (b *Batch) Validate(c SliceConfig) error {
	rows := b.Rows()
	if rows < 1 || rows > c.MaxRows {
		return fmt.Errorf("%w: %d rows, must be 1 to %d", ErrBadBatch, rows, c.MaxRows)
	}
	if c.first() {
		for i, t := range b.Tokens {
			if t < 0 || int(t) >= c.Graph.Vocab {
				return fmt.Errorf("%w: row %d is token %d of a vocabulary of %d", ErrBadBatch, i, t, c.Graph.Vocab)
			}
		}
	}
	next := 0
	for i := range b.Sequences {
		if err := b.Sequences[i].validate(c, next); err != nil {
			return fmt.Errorf("%w: sequence %d: %w", ErrBadBatch, i, err)
		}
		next += b.Sequences[i].Rows
	}
	if next != rows {
		return fmt.Errorf("%w: sequences have %d rows of %d", ErrBadBatch, next, rows)
	}
	return b.validateLogits(c)
}

func (b *Batch) validateLogits(c SliceConfig) error {
	if c.last() && len(b.LogitRows) > c.MaxLogits {
		return fmt.Errorf("%w: %d rows ask for logits, at most %d may", ErrBadBatch, len(b.LogitRows), c.MaxLogits)
	}
	last := int32(-1)
	for _, r := range b.LogitRows {
		if r <= last || int(r) >= b.Rows() {
			return fmt.Errorf("%w: logits of row %d after row %d, of %d", ErrBadBatch, r, last, b.Rows())
		}
		last = r
	}
	return nil
}

func (s *Span) validate(c SliceConfig, first int) error {
	switch {
	case s.First != first || s.Rows < 1:
		return fmt.Errorf("rows [%d, %d), must begin at %d and not be empty", s.First, s.First+s.Rows, first)
	case s.Start < 0 || s.Start+s.Rows > c.Graph.ContextTokens:
		return fmt.Errorf("positions [%d, %d) of a context of %d", s.Start, s.Start+s.Rows, c.Graph.ContextTokens)
	}
	if !c.attends() {
		return nil
	}
	pages := (s.Start + s.Rows + BlockTokens - 1) / BlockTokens
	if len(s.Blocks) < pages {
		return fmt.Errorf("%d KV pages for %d positions, %d are needed", len(s.Blocks), s.Start+s.Rows, pages)
	}
	for _, p := range s.Blocks[:pages] {
		if p < 0 || int(p) >= c.KVBlocks {
			return fmt.Errorf("KV page %d of %d", p, c.KVBlocks)
		}
	}
	return nil
}
