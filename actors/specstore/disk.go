package specstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"slicescheduler/gmg"
)

// FileName is the name of the data file in a node's data directory.
const FileName = "slicer.db"

const (
	lockTimeout   = time.Second // a node that is just stopping may still hold the lock
	schemaVersion = 1
)

// Names within the file. A fact's key is gmg.Key.String(), its value gmg.EncodeFacts of the one fact.
var (
	metaBucket  = []byte("meta")
	factsBucket = []byte("facts")
	schemaKey   = []byte("schema")
)

// Open opens the store in a data directory, making both if need be, and reads all of it once, so that damage shows now. ErrLocked, ErrCorrupt and ErrSchema
// say what to do.
func Open(dir string) (Store, error) { return open(dir, lockTimeout) }

func open(dir string, timeout time.Duration) (Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	d := &disk{path: filepath.Join(dir, FileName)}
	err := d.guard(func() (err error) {
		// bbolt begins a file with two pages; its own complaint about a shorter one can't be told from other errors.
		if info, err := os.Stat(d.path); err == nil && info.Size() > 0 && info.Size() < int64(2*os.Getpagesize()) {
			return fmt.Errorf("%w: only %d bytes", ErrCorrupt, info.Size())
		}
		d.db, err = bbolt.Open(d.path, 0o600, &bbolt.Options{Timeout: timeout})
		return err
	})
	if err != nil {
		return nil, d.explain(err)
	}
	err = d.guard(func() error { return d.db.Update(initialise) })
	if err == nil {
		_, err = d.load()
	}
	if err != nil {
		return nil, errors.Join(d.explain(err), d.Close())
	}
	return d, nil
}

// initialise makes the buckets of a new file and checks the layout of an old one.
func initialise(tx *bbolt.Tx) error {
	meta := tx.Bucket(metaBucket)
	if meta == nil {
		var err error
		if meta, err = tx.CreateBucket(metaBucket); err != nil {
			return err
		}
		if err := meta.Put(schemaKey, binary.BigEndian.AppendUint32(nil, schemaVersion)); err != nil {
			return err
		}
	}
	b := meta.Get(schemaKey)
	if len(b) != 4 {
		return fmt.Errorf("%w: no layout version", ErrCorrupt)
	}
	if v := binary.BigEndian.Uint32(b); v != schemaVersion {
		return fmt.Errorf("%w: version %d, this program knows version %d", ErrSchema, v, schemaVersion)
	}
	_, err := tx.CreateBucketIfNotExists(factsBucket)
	return err
}

// disk is a store in a bbolt file: each Put is one transaction, synced before it returns.
type disk struct {
	path string
	db   *bbolt.DB
}

func (d *disk) Put(facts ...gmg.Fact) error {
	for i := range facts {
		if err := accept(&facts[i]); err != nil {
			return err
		}
	}
	if len(facts) == 0 {
		return nil
	}
	return d.explain(d.guard(func() error {
		return d.db.Update(func(tx *bbolt.Tx) error {
			for _, f := range facts {
				if err := putFact(tx.Bucket(factsBucket), f); err != nil {
					return err
				}
			}
			return nil
		})
	}))
}

// putFact writes a fact unless a newer one is there.
func putFact(b *bbolt.Bucket, f gmg.Fact) error {
	name := []byte(f.Key.String())
	if v := b.Get(name); v != nil {
		old, err := decodeFact(name, v)
		if err != nil {
			return err
		}
		if f.Stamp.Compare(old.Stamp) < 0 {
			return nil
		}
	}
	v, err := gmg.EncodeFacts([]gmg.Fact{f})
	if err != nil {
		return err
	}
	return b.Put(name, v)
}

func decodeFact(name, v []byte) (gmg.Fact, error) {
	facts, err := gmg.DecodeFacts(v)
	if err != nil {
		return gmg.Fact{}, fmt.Errorf("record %q: %w", name, err)
	}
	if len(facts) != 1 || facts[0].Key.String() != string(name) {
		return gmg.Fact{}, fmt.Errorf("%w: record %q holds %d other facts", ErrCorrupt, name, len(facts))
	}
	return facts[0], nil
}

func (d *disk) Delete(keys ...gmg.Key) error {
	return d.explain(d.guard(func() error {
		return d.db.Update(func(tx *bbolt.Tx) error {
			for _, k := range keys {
				if err := tx.Bucket(factsBucket).Delete([]byte(k.String())); err != nil {
					return err
				}
			}
			return nil
		})
	}))
}

func (d *disk) Load() ([]gmg.Fact, error) {
	facts, err := d.load()
	return facts, d.explain(err)
}

func (d *disk) load() (facts []gmg.Fact, err error) {
	err = d.guard(func() error {
		return d.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(factsBucket).ForEach(func(name, v []byte) error {
				f, err := decodeFact(name, v)
				facts = append(facts, f)
				return err
			})
		})
	})
	if err != nil {
		return nil, err
	}
	return facts, nil
}

func (d *disk) Close() error { return d.db.Close() }

// guard runs f and turns a panic or a fault of the memory map into ErrCorrupt: bbolt trusts the pages of its file.
func (d *disk) guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	return f()
}

// explain gives an error the file's name and says what to do about it.
func (d *disk) explain(err error) error {
	const restore = "move the file away and start again: tenants come back from the other nodes of the cluster, or submit them anew"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("%s: %w; stop it or choose another --data directory", d.path, ErrLocked)
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		return fmt.Errorf("%s: %w", d.path, ErrClosed)
	case errors.Is(err, gmg.ErrVersion):
		return fmt.Errorf("%s: %w: %w", d.path, ErrSchema, err)
	case errors.Is(err, ErrSchema):
		return fmt.Errorf("%s: %w; use the program that wrote it or a newer one", d.path, err)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, gmg.ErrCorrupt):
		return fmt.Errorf("%s: %w: %w; %s", d.path, ErrCorrupt, err, restore)
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("%s: %w; %s", d.path, err, restore)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; the data directory must be this user's", err)
	}
	return fmt.Errorf("%s: %w", d.path, err)
}
