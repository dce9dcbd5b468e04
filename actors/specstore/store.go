// Package specstore keeps what must survive a stop of the whole cluster: the shared facts of the GMG, that is tenant specs and API keys (hashes only), with
// their tombstones. Every node keeps all of them.
package specstore

import (
	"errors"
	"fmt"

	"slicescheduler/gmg"
)

// Errors of stores. They are wrapped with the file and the remedy.
var (
	ErrLocked  = errors.New("another slicer uses this data directory")
	ErrCorrupt = errors.New("data file is corrupt")
	ErrSchema  = errors.New("data file has an unknown layout")
	ErrClosed  = errors.New("store is closed")
)

// Store keeps shared facts. It is safe for concurrent use.
type Store interface {
	// Put keeps facts, all or none, and returns once they would survive a power cut. A fact older than the one kept for its key changes nothing.
	// Tombstones are kept like other facts. Facts that aren't shared are gmg.ErrFact.
	Put(facts ...gmg.Fact) error
	// Delete forgets keys for good, tombstones included: for those old enough that no node can still hold what they deleted.
	Delete(keys ...gmg.Key) error
	// Load returns all facts, ordered by key.
	Load() ([]gmg.Fact, error)
	// Close releases the data directory.
	Close() error
}

// accept checks that a fact is one to keep.
func accept(f *gmg.Fact) error {
	if !f.Key.Kind.Shared() {
		return fmt.Errorf("%w: %v is not kept on disk", gmg.ErrFact, f.Key)
	}
	return f.Validate()
}
