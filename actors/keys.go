package actors

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"slicescheduler/gmg"
)

// API keys are 32 random bytes, so a plain hash is enough: nobody can guess through them, however fast the hash.
const (
	keyPrefix      = "sk-slicer-"
	keySecretBytes = 32
	keyShownChars  = len(keyPrefix) + 6
	maxKeyName     = 128
)

// Errors of keys.
var (
	ErrKeyExists = errors.New("key exists")
	ErrNoKey     = errors.New("no such key")
)

// keyIndex finds tenants by the hashes of their keys. They are filed by the first bytes of the hash, which give nothing away, and compared in constant time.
type keyIndex struct {
	mu     sync.RWMutex
	owners map[string][]keyOwner // by the first keyFileChars of the hash
}

type keyOwner struct {
	hash   string // hex
	tenant gmg.TenantID
}

const keyFileChars = 8

func newKeyIndex() *keyIndex { return &keyIndex{owners: make(map[string][]keyOwner)} }

// add files hashes of a tenant's keys; what is no hash is left out.
func (x *keyIndex) add(t gmg.TenantID, hashes ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range hashes {
		if len(h) == hex.EncodedLen(sha256.Size) {
			x.owners[h[:keyFileChars]] = append(x.owners[h[:keyFileChars]], keyOwner{h, t})
		}
	}
}

// remove takes out what matches.
func (x *keyIndex) remove(match func(keyOwner) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for file, owners := range x.owners {
		if owners = slices.DeleteFunc(owners, match); len(owners) == 0 {
			delete(x.owners, file)
		} else {
			x.owners[file] = owners
		}
	}
}

// find returns the tenant of a key.
func (x *keyIndex) find(key string) (t gmg.TenantID, ok bool) {
	hash := hashKey(key)
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, o := range x.owners[hash[:keyFileChars]] {
		if subtle.ConstantTimeCompare([]byte(o.hash), []byte(hash)) == 1 {
			t, ok = o.tenant, true
		}
	}
	return t, ok
}

func hashKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// AddKey makes an API key of a tenant. The key is returned this once; only its hash is kept.
func (n *Node) AddKey(ctx context.Context, t gmg.TenantID, name string) (string, error) {
	done, err := n.change(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	if n.rt.tenants.get(t) == nil {
		return "", fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	if !goodKeyName(name) {
		return "", &FieldError{"name", fmt.Sprintf("%q: must be 1 to %d bytes of printable text without spaces around it", name, maxKeyName)}
	}
	if _, exists := n.key(t, name); exists {
		return "", fmt.Errorf("%w: %s of tenant %s; remove it first", ErrKeyExists, name, t)
	}
	var secret [keySecretBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	key := keyPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	k := gmg.APIKey{Tenant: t, Name: name, Prefix: key[:keyShownChars], Hash: hashKey(key), CreatedUnixS: time.Now().Unix()}
	if _, err := n.putShared(ctx, []gmg.Value{k}, nil); err != nil {
		return "", err
	}
	n.keys.add(t, k.Hash)
	return key, nil
}

// goodKeyName keeps out what would break a listing on somebody's terminal.
func goodKeyName(name string) bool {
	return name != "" && len(name) <= maxKeyName && strings.TrimSpace(name) == name && utf8.ValidString(name) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) })
}

func (n *Node) key(t gmg.TenantID, name string) (gmg.APIKey, bool) {
	for _, k := range n.rt.snapshot.Load().APIKeys(t) {
		if k.Name == name {
			return k, true
		}
	}
	return gmg.APIKey{}, false
}

// RemoveKey ends a key.
func (n *Node) RemoveKey(ctx context.Context, t gmg.TenantID, name string) error {
	done, err := n.change(ctx)
	if err != nil {
		return err
	}
	defer done()
	if n.rt.tenants.get(t) == nil {
		return fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	k, ok := n.key(t, name)
	if !ok {
		return fmt.Errorf("%w: %s of tenant %s", ErrNoKey, name, t)
	}
	if _, err := n.putShared(ctx, nil, []gmg.Key{k.Key()}); err != nil {
		return err
	}
	n.keys.remove(func(o keyOwner) bool { return o.hash == k.Hash && o.tenant == t })
	return nil
}

// Keys lists a tenant's keys by name.
func (n *Node) Keys(_ context.Context, t gmg.TenantID) ([]KeyInfo, error) {
	if n.rt.tenants.get(t) == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoTenant, t)
	}
	list := []KeyInfo{}
	for _, k := range n.rt.snapshot.Load().APIKeys(t) {
		list = append(list, KeyInfo{Name: k.Name, Prefix: k.Prefix, CreatedUnixS: k.CreatedUnixS})
	}
	return list, nil
}

// CheckKey says which tenant a key belongs to.
func (n *Node) CheckKey(_ context.Context, key string) (gmg.TenantID, bool) { return n.keys.find(key) }
