package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// runsFile is where a store keeps its runs, one JSON object a line.
const runsFile = "runs.jsonl"

// Store remembers finished runs, so that an interrupted sweep goes on where it was. It may be used by several goroutines.
type Store struct {
	mu   sync.Mutex
	file *os.File // nil: in memory only
	runs map[string]*Result
}

// storedRun is a line of a store. Key holds all that decides a run's figures, save the machine's speed.
type storedRun struct {
	Key    string  `json:"key"`
	Result *Result `json:"result"`
}

// OpenStore opens the store in a directory, which it makes; an empty name keeps runs in memory. A line that was cut off by a crash is dropped.
func OpenStore(dir string) (*Store, error) {
	s := &Store{runs: map[string]*Result{}}
	if dir == "" {
		return s, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory of results: %w", err)
	}
	path := filepath.Join(dir, runsFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("results so far: %w", err)
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	for n, line := range bytes.Split(data[:whole], []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var r storedRun
		if err := json.Unmarshal(line, &r); err != nil || r.Result == nil {
			return nil, fmt.Errorf("%s, line %d is no run (%v); remove the line, or the file to begin anew", path, n+1, err)
		}
		s.runs[r.Key] = r.Result
	}
	if s.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	if err := errors.Join(s.file.Truncate(int64(whole)), seekTo(s.file, int64(whole))); err != nil {
		return nil, fmt.Errorf("results: %w", errors.Join(err, s.file.Close()))
	}
	return s, nil
}

func seekTo(f *os.File, at int64) error {
	_, err := f.Seek(at, 0)
	return err
}

// Close closes the store's file.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// Len is the number of runs that are remembered.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

// key names a run. Where it would have been stopped is left out: a run that wasn't stopped serves any limit.
func (p *Setup) key(o *RunOptions) (string, error) {
	plain := *o
	plain.StopAbovePct = 0
	scenario, err := json.Marshal(p.Scenario)
	if err != nil {
		return "", err
	}
	options, err := json.Marshal(&plain)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(scenario)
	return fmt.Sprintf("%s %s %s", p.Scenario.Name, hex.EncodeToString(sum[:6]), options), nil
}

// get returns a run that was done before, unless it was stopped too early to answer this time.
func (s *Store) get(key string, stopAbovePct float64) *Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[key]
	if r == nil || r.Stopped && (stopAbovePct <= 0 || r.ViolationsPct <= stopAbovePct) {
		return nil
	}
	return r
}

// put remembers a run, and writes it down at once.
func (s *Store) put(key string, r *Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[key] = r
	if s.file == nil {
		return nil
	}
	kept := *r
	if r.Stopped {
		kept.Tenants = nil // of no use to anyone
	}
	line, err := json.Marshal(storedRun{key, &kept})
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	return nil
}
