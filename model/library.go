package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"slicescheduler/model/embedded"
)

// ErrNotFound is a model's name that stands for nothing here.
var ErrNotFound = errors.New("no such model")

// Library finds models by name and opens each file once however many tenants use it. It is safe for concurrent use.
type Library struct {
	dirs []string

	mu   sync.Mutex
	open map[string]*shared // by identity of the file
}

// shared is an opened model with its users. ready is closed when model and err are set.
type shared struct {
	users int
	ready chan struct{}
	model *Model
	err   error
}

// Listing is a model that can be opened.
type Listing struct {
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"` // empty for embedded models
	Bytes    int64  `json:"bytes"`
	Embedded bool   `json:"embedded"`
}

// NewLibrary returns a library over directories of model files, searched in order. They need not exist.
func NewLibrary(dirs ...string) *Library {
	return &Library{dirs: slices.Clone(dirs), open: make(map[string]*shared)}
}

// DefaultDir is where models are kept: $SLICER_MODELS, else ${XDG_CACHE_HOME:-~/.cache}/slicer/models.
func DefaultDir() (string, error) {
	if dir := os.Getenv("SLICER_MODELS"); dir != "" {
		return dir, nil
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for models, set SLICER_MODELS: %w", err)
		}
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "slicer", "models"), nil
}

// List returns the embedded models and the files in the directories, by name.
func (l *Library) List() ([]Listing, error) {
	var out []Listing
	for _, name := range embedded.Names() {
		size, err := embedded.Size(name)
		if err != nil {
			return nil, err
		}
		out = append(out, Listing{Name: name, Bytes: size, Embedded: true})
	}
	for _, dir := range l.dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if item, ok := listFile(dir, e.Name()); ok {
				out = append(out, item)
			}
		}
	}
	return out, nil
}

// listFile describes a model file; shards after the first are not models of their own.
func listFile(dir, file string) (Listing, bool) {
	name, isModel := strings.CutSuffix(file, ".gguf")
	if !isModel || laterShard(name) {
		return Listing{}, false
	}
	path := filepath.Join(dir, file)
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() {
		return Listing{}, false
	}
	return Listing{Name: name, Path: path, Bytes: st.Size()}, true
}

func laterShard(name string) bool {
	before, _, found := strings.Cut(name, "-of-")
	return found && len(before) > 6 && before[len(before)-6] == '-' && before[len(before)-5:] != "00001" && strings.Trim(before[len(before)-5:], "0123456789") == ""
}

// Resolve finds the model that a name stands for: an embedded model, a path, or a file of the directories. Of the latter the name may be written without ".gguf", in any case, without
// punctuation, and cut short as long as one file alone begins so ("smollm2-135m").
func (l *Library) Resolve(name string) (Listing, error) {
	all, err := l.List()
	if err != nil {
		return Listing{}, err
	}
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() {
		return Listing{Name: stem(filepath.Base(name)), Path: name, Bytes: st.Size()}, nil
	}
	var close []Listing
	for _, item := range all {
		if strings.EqualFold(item.Name, stem(name)) {
			return item, nil
		}
		if plain := plainName(name); plain != "" && strings.HasPrefix(plainName(item.Name), plain) {
			close = append(close, item)
		}
	}
	switch len(close) {
	case 1:
		return close[0], nil
	case 0:
		return Listing{}, fmt.Errorf("%w: %q; there are: %s; fetch others with: slicer pull NAME", ErrNotFound, name, names(all))
	}
	return Listing{}, fmt.Errorf("%w: %q may be any of: %s", ErrNotFound, name, names(close))
}

// plainName leaves lower-case letters and digits.
func plainName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, stem(name))
}

// stem takes the ending of model files away, in any case.
func stem(name string) string {
	const ending = ".gguf"
	if cut := len(name) - len(ending); cut > 0 && strings.EqualFold(name[cut:], ending) {
		return name[:cut]
	}
	return name
}

func names(list []Listing) string {
	var out []string
	for _, item := range list {
		out = append(out, item.Name)
	}
	return strings.Join(out, ", ")
}

// Open returns the model of a name. All users of a file share one model; it is closed when the last calls release, which is safe to call more than once.
func (l *Library) Open(name string) (*Model, func(), error) {
	item, err := l.Resolve(name)
	if err != nil {
		return nil, nil, err
	}
	key, err := identity(item)
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	s, known := l.open[key]
	if !known {
		s = &shared{ready: make(chan struct{})}
		l.open[key] = s
	}
	s.users++
	l.mu.Unlock()
	if known {
		<-s.ready
	} else {
		s.model, s.err = openListing(item)
		close(s.ready)
	}
	if s.err != nil {
		return nil, nil, errors.Join(s.err, l.release(key, s))
	}
	var once sync.Once
	return s.model, func() { once.Do(func() { _ = l.release(key, s) }) }, nil
}

// release takes one user away and closes the model after the last.
func (l *Library) release(key string, s *shared) error {
	l.mu.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(l.open, key)
	}
	l.mu.Unlock()
	if last && s.model != nil {
		return s.model.Close()
	}
	return nil
}

func openListing(item Listing) (*Model, error) {
	if !item.Embedded {
		return Open(item.Path)
	}
	data, err := embedded.File(item.Name)
	if err != nil {
		return nil, err
	}
	return OpenBytes(item.Name, data)
}

// identity tells files apart, also one that was replaced from the one that it replaced.
func identity(item Listing) (string, error) {
	if item.Embedded {
		return "embedded:" + item.Name, nil
	}
	path, err := filepath.EvalSymlinks(item.Path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(path); err != nil {
		return "", err
	}
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", path, st.Size(), st.ModTime().UnixNano()), nil
}
