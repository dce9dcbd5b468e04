package secret

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fixed is a secret whose derivations are written down below.
const fixed = "slicer-secret-1-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9jDc0p"

func TestDerivationsStayTheSame(t *testing.T) {
	s, err := Parse(fixed)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Reveal(); got != fixed {
		t.Errorf("revealed %s", got)
	}
	_, ca, err := s.authority("prod")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s %x %x", s.Fingerprint(), s.GossipKey("prod"), ca.Signature[:8])
	want := "d316-ef0d-c383-bde6 acb0c2668dc4f30cf36bd699ba2f093c399fc0b486914cdc18fb7f6ce5d4b535 9ca5c1233bebcdc0"
	if got != want {
		t.Errorf("a secret now stands for %s, which keeps out all nodes of older releases; want %s", got, want)
	}
	if bytes.Equal(s.GossipKey("prod"), s.GossipKey("test")) {
		t.Error("two clusters share a gossip key")
	}
}

func TestParseRefuses(t *testing.T) {
	good := New().Reveal()
	flipped := []byte(good)
	if flipped[30]++; flipped[30] == 'z'+1 {
		flipped[30] = 'a'
	}
	for name, text := range map[string]string{
		"empty": "", "prefix": "hunter2", "short": good[:len(good)-1], "long": good + "A", "slip": string(flipped), "alphabet": good[:20] + "+" + good[21:], "only prefix": prefix,
	} {
		_, err := Parse(text)
		if !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if body := strings.TrimPrefix(text, prefix); len(body) > 8 && strings.Contains(err.Error(), body[:8]) {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
	if s, err := Parse(" \t" + good + "\r\n"); err != nil || s.Reveal() != good {
		t.Errorf("space around a secret: %v", err)
	}
}

func TestSecretsDiffer(t *testing.T) {
	a, b := New(), New()
	if a.Equal(b) || a.Fingerprint() == b.Fingerprint() || a.Reveal() == b.Reveal() || a.IsZero() || !(Secret{}).IsZero() || a.Equal(Secret{}) {
		t.Error("two new secrets are not two")
	}
}

// shown lists all ways by which a secret might leak into text.
func shown(t *testing.T, v any) string {
	t.Helper()
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&out, verb+"\n", v)
		fmt.Fprintf(&out, verb+"\n", &v)
		fmt.Fprintf(&out, verb+"\n", struct{ hidden any }{v})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	if data, err := json.Marshal(v); err == nil {
		out.Write(data)
	}
	return out.String()
}

func TestSecretsAreNeverShown(t *testing.T) {
	s, err := Parse(fixed)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := NewIdentity("prod", "n1", Keys{s}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{s, &s, Keys{s}, struct{ S Secret }{s}, struct{ s Secret }{s}, struct{ k Keys }{Keys{s}}, identity, Rotation{PhaseAdded, Keys{s}}} {
		text := shown(t, v)
		for _, leak := range []string{"AAECAwQF", "0 1 2 3 4", "0001020304", "0x0, 0x1, 0x2", "0, 1, 2, 3"} {
			if strings.Contains(strings.ToLower(text), strings.ToLower(leak)) {
				t.Errorf("%T shows its secret (%s):\n%s", v, leak, text)
			}
		}
	}
	if text := shown(t, s); !strings.Contains(text, s.Fingerprint()) {
		t.Errorf("a secret does not show its fingerprint:\n%s", text)
	}
}

func TestRotationOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	old, next := New(), New()
	if err := WriteFile(path, Keys{old}, true); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, Keys{next}, true); !errors.Is(err, os.ErrExist) {
		t.Errorf("a secret was overwritten: %v", err)
	}
	steps := []struct {
		step func(Keys) (Rotation, error)
		want Keys
	}{
		{func(k Keys) (Rotation, error) { return k.Add(next) }, Keys{old, next}},
		{Keys.Use, Keys{next, old}},
		{Keys.Remove, Keys{next}},
	}
	for i, c := range steps {
		keys, exposed, err := ReadFile(path)
		if err != nil || exposed {
			t.Fatalf("step %d: exposed %v, %v", i, exposed, err)
		}
		r, err := c.step(keys)
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(path, r.Keys, false); err != nil {
			t.Fatal(err)
		}
		if got, _, err := ReadFile(path); err != nil || !got.Equal(c.want) {
			t.Errorf("step %d: %v, %v", i, got, err)
		}
	}
	for name, step := range map[string]func() (Rotation, error){
		"use without a second": Keys{old}.Use, "remove without a second": Keys{old}.Remove,
		"add a third": func() (Rotation, error) { return Keys{old, next}.Add(New()) }, "add the same": func() (Rotation, error) { return Keys{old}.Add(old) },
	} {
		if _, err := step(); !errors.Is(err, ErrSecret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, exposed, err := ReadFile(path); err != nil || !exposed {
		t.Errorf("a file that all may read: exposed %v, %v", exposed, err)
	}
}

func TestKeysOfAFile(t *testing.T) {
	a, b := New().Reveal(), New().Reveal()
	for text, want := range map[string]int{a: 1, "# one\n\n" + a + "\r\n" + b + "\n": 2, "": 0, a + "\n" + a: 0, a + "\n" + b + "\n" + New().Reveal(): 0, "x": 0, a + "\nslip": 0} {
		keys, err := ParseKeys(text)
		if (err == nil) != (want > 0) || err == nil && len(keys) != want {
			t.Errorf("%d lines: %d secrets, %v", strings.Count(text, "\n")+1, len(keys), err)
		}
		if err != nil && strings.Contains(err.Error(), a[20:40]) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	if _, _, err := ReadFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "slicer secret new") {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add(fixed)
	f.Add("# note\n" + fixed + "\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := ParseKeys(text)
		if err != nil {
			return
		}
		if again, err := ParseKeys(keys.text()); err != nil || !again.Equal(keys) {
			t.Errorf("%q came back as %v, %v", text, again, err)
		}
	})
}
