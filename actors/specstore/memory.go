package specstore

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"slicescheduler/gmg"
)

// OpenMemory returns a store that lives as long as the process, for nodes without a data directory.
func OpenMemory() Store { return &memory{facts: make(map[string]gmg.Fact)} }

type memory struct {
	mu    sync.Mutex
	facts map[string]gmg.Fact // nil once closed
}

func (m *memory) Put(facts ...gmg.Fact) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts == nil {
		return ErrClosed
	}
	for i := range facts {
		if err := accept(&facts[i]); err != nil {
			return err
		}
	}
	for _, f := range facts {
		name := f.Key.String()
		if old, ok := m.facts[name]; !ok || f.Stamp.Compare(old.Stamp) >= 0 {
			m.facts[name] = f
		}
	}
	return nil
}

func (m *memory) Delete(keys ...gmg.Key) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts == nil {
		return ErrClosed
	}
	for _, k := range keys {
		delete(m.facts, k.String())
	}
	return nil
}

func (m *memory) Load() ([]gmg.Fact, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.facts == nil {
		return nil, ErrClosed
	}
	return slices.SortedFunc(maps.Values(m.facts), func(a, b gmg.Fact) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	}), nil
}

func (m *memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.facts = nil
	return nil
}
