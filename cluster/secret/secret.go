// Package secret derives all that nodes trust each other by from one cluster secret: the key of the gossip and a certificate authority, from which each
// node mints its own certificate for mutual TLS.
//
// Whoever holds the secret is a member: it may mint a certificate for any node. So a certificate shows that its holder knows the secret, and for which
// cluster; it names the node for people only. Secrets never stand in logs, errors or JSON: every way to print one gives its fingerprint.
package secret

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// The text of a secret is the prefix, and in unpadded URL-safe base64 the 32 random bytes followed by the first 4 bytes of their SHA-256, which catch a
// slip of the keyboard.
const (
	prefix        = "slicer-secret-1-"
	entropyBytes  = 32
	checkBytes    = 4
	textBytes     = entropyBytes + checkBytes
	gossipBytes   = 32 // AES-256
	fingerBytes   = 8
	derivationTag = "slicer 1 "
)

// ErrSecret is a text that is no cluster secret. Errors say what is wrong with it, never what it is.
var ErrSecret = errors.New("not a cluster secret")

// Secret is a cluster secret. The zero Secret is none. The bytes are behind a function because fmt doesn't ask unexported fields of other structs how they
// want to be printed, and some verbs follow pointers.
type Secret struct{ entropy func() *[entropyBytes]byte }

func holding(b *[entropyBytes]byte) Secret {
	return Secret{func() *[entropyBytes]byte { return b }}
}

// New returns a secret of 256 random bits. It can't fail: the system's random numbers end the program when they do.
func New() Secret {
	b := new([entropyBytes]byte)
	rand.Read(b[:])
	return holding(b)
}

// Parse reads what Reveal wrote; space around it doesn't matter.
func Parse(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	body, found := strings.CutPrefix(text, prefix)
	if !found {
		return Secret{}, fmt.Errorf("%w: it does not begin with %s; make one with slicer secret new", ErrSecret, prefix)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || len(raw) != textBytes {
		return Secret{}, fmt.Errorf("%w: after the prefix stand %d characters, want %d letters, digits, - or _", ErrSecret, len(body),
			base64.RawURLEncoding.EncodedLen(textBytes))
	}
	sum := sha256.Sum256(raw[:entropyBytes])
	if subtle.ConstantTimeCompare(sum[:checkBytes], raw[entropyBytes:]) != 1 {
		return Secret{}, fmt.Errorf("%w: its check does not match, so a character is wrong; copy it again", ErrSecret)
	}
	return holding((*[entropyBytes]byte)(raw)), nil
}

// Reveal returns the secret's text, "" for none. It is for the file that keeps it, and for nothing else.
func (s Secret) Reveal() string {
	if s.IsZero() {
		return ""
	}
	sum := sha256.Sum256(s.entropy()[:])
	raw := append(append(make([]byte, 0, textBytes), s.entropy()[:]...), sum[:checkBytes]...)
	return prefix + base64.RawURLEncoding.EncodeToString(raw)
}

// IsZero says that there is no secret.
func (s Secret) IsZero() bool { return s.entropy == nil }

// Equal compares without telling by its time where two secrets differ.
func (s Secret) Equal(o Secret) bool {
	if s.IsZero() || o.IsZero() {
		return s.IsZero() && o.IsZero()
	}
	return subtle.ConstantTimeCompare(s.entropy()[:], o.entropy()[:]) == 1
}

// derive returns n bytes that follow from the secret and a purpose (HKDF-SHA256, RFC 5869) and tell nothing of it or of other purposes' bytes.
func (s Secret) derive(purpose string, n int) []byte {
	key, err := hkdf.Key(sha256.New, s.entropy()[:], nil, derivationTag+purpose, n)
	if err != nil {
		panic(err) // the lengths are constants far below HKDF's limit
	}
	return key
}

// GossipKey returns the AES-256 key that the gossip of a cluster is encrypted with; clusters of other names have other keys.
func (s Secret) GossipKey(cluster string) []byte { return s.derive("gossip "+cluster, gossipBytes) }

// Fingerprint names a secret without giving it away: 16 hex digits in groups of four. People compare it to see that two hosts hold the same one.
func (s Secret) Fingerprint() string {
	digits := hex.EncodeToString(s.derive("fingerprint", fingerBytes))
	var groups []string
	for i := 0; i < len(digits); i += 4 {
		groups = append(groups, digits[i:i+4])
	}
	return strings.Join(groups, "-")
}

// String returns the fingerprint, with words around it.
func (s Secret) String() string {
	if s.IsZero() {
		return "no secret"
	}
	return "secret " + s.Fingerprint()
}

// Format implements fmt.Formatter, so that no verb prints the bytes.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalText returns the fingerprint: a configuration that is dumped does not leak its secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
