package secret

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// MaxKeys is how many secrets may be valid at a time: the one in use and, during a rotation, its successor or predecessor.
const MaxKeys = 2

// Keys are the secrets that are valid now. The first one is used, all are accepted.
type Keys []Secret

// Validate checks that there are one or two different secrets.
func (k Keys) Validate() error {
	switch {
	case len(k) == 0 || len(k) > MaxKeys:
		return fmt.Errorf("%w: %d secrets, want one, or two during a rotation", ErrSecret, len(k))
	case slices.ContainsFunc(k, Secret.IsZero):
		return fmt.Errorf("%w: one of the secrets is empty", ErrSecret)
	case len(k) == 2 && k[0].Equal(k[1]):
		return fmt.Errorf("%w: the same secret stands there twice", ErrSecret)
	}
	return nil
}

// Equal says whether two sets use and accept the same.
func (k Keys) Equal(o Keys) bool { return slices.EqualFunc(k, o, Secret.Equal) }

// ParseKeys reads a secret file's text: a secret a line, the one in use first; empty lines and those that begin with # don't count.
func ParseKeys(text string) (Keys, error) {
	var keys Keys
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		keys = append(keys, s)
	}
	if lines.Err() != nil {
		return nil, fmt.Errorf("%w: a line is too long", ErrSecret)
	}
	return keys, keys.Validate()
}

// text is the inverse of ParseKeys.
func (k Keys) text() string {
	var b strings.Builder
	b.WriteString("# Secret of a SliceScheduler cluster. Whoever has it is a member; see: slicer secret --help\n")
	for i, s := range k {
		if i > 0 {
			b.WriteString("# accepted too:\n")
		}
		b.WriteString(s.Reveal() + "\n")
	}
	return b.String()
}

// ReadFile reads a secret file. exposed says that others than its owner may read it, which deserves a warning but is how some platforms mount secrets.
func ReadFile(path string) (keys Keys, exposed bool, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false, fmt.Errorf("secret file: %w; make one with slicer secret new", err)
	}
	if keys, err = ParseKeys(string(data)); err != nil {
		return nil, false, fmt.Errorf("secret file %s: %w", path, err)
	}
	info, err := os.Stat(path)
	return keys, err == nil && info.Mode().Perm()&0o077 != 0, nil
}

// WriteFile writes a secret file that only its owner may read. Whoever reads meanwhile sees the old or the new one. With fresh, a file that is there is an
// error that wraps os.ErrExist.
func WriteFile(path string, keys Keys, fresh bool) error {
	if err := keys.Validate(); err != nil {
		return err
	}
	if fresh {
		return writeAndSync(path, keys, os.O_EXCL)
	}
	part := path + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("secret file: %w", err)
	}
	if err := writeAndSync(part, keys, os.O_EXCL); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("secret file: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}

func writeAndSync(path string, keys Keys, flag int) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600)
	if err != nil {
		return fmt.Errorf("secret file: %w", err)
	}
	_, err = f.WriteString(keys.text())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("secret file: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Phase is what a step of a rotation did. Nodes must all have taken up one phase before the next: then any two of them accept each other's throughout.
type Phase string

// Phases of a rotation, in order.
const (
	PhaseAdded   Phase = "added"   // a new secret is accepted, the old one in use
	PhaseUsed    Phase = "used"    // the new one is in use, the old one accepted
	PhaseRemoved Phase = "removed" // the old one is gone
)

// Rotation is what the secrets will be after a step.
type Rotation struct {
	Phase Phase
	Keys  Keys
}

// Add begins a rotation: next is accepted from now on. Keys in the middle of a rotation are an error.
func (k Keys) Add(next Secret) (Rotation, error) {
	if len(k) != 1 {
		return Rotation{}, fmt.Errorf("%w: a rotation is under way: end it first", ErrSecret)
	}
	after := Keys{k[0], next}
	return Rotation{PhaseAdded, after}, after.Validate()
}

// Use makes the accepted secret the one in use.
func (k Keys) Use() (Rotation, error) {
	if len(k) != 2 {
		return Rotation{}, fmt.Errorf("%w: there is no second secret to use: begin a rotation first", ErrSecret)
	}
	return Rotation{PhaseUsed, Keys{k[1], k[0]}}, nil
}

// Remove ends a rotation: only the secret in use remains.
func (k Keys) Remove() (Rotation, error) {
	if len(k) != 2 {
		return Rotation{}, fmt.Errorf("%w: there is no second secret to remove", ErrSecret)
	}
	return Rotation{PhaseRemoved, Keys{k[0]}}, nil
}
