package specstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"slicescheduler/gmg"
)

func spec(id string, wallNs int64) gmg.Fact {
	v := gmg.TenantSpec{ID: gmg.TenantID(id), Model: fmt.Sprint("model at ", wallNs)}
	return gmg.Fact{Key: v.Key(), Version: gmg.Version{Owner: "n", Incarnation: 1, Seq: uint64(wallNs)}, Stamp: gmg.Stamp{WallNs: wallNs, Node: "n"}, Value: v}
}

func tombstone(id string, wallNs int64) gmg.Fact {
	f := spec(id, wallNs)
	f.Deleted, f.Value = true, nil
	return f
}

func key(tenant, name string, wallNs int64) gmg.Fact {
	v := gmg.APIKey{Tenant: gmg.TenantID(tenant), Name: name, Prefix: "sk-1", Hash: "ab12", CreatedUnixS: 7}
	return gmg.Fact{Key: v.Key(), Version: gmg.Version{Owner: "n", Incarnation: 1, Seq: uint64(wallNs)}, Stamp: gmg.Stamp{WallNs: wallNs, Node: "n"}, Value: v}
}

func mustOpen(t *testing.T, dir string) Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustLoad(t *testing.T, s Store) []gmg.Fact {
	t.Helper()
	facts, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func TestBothStoresBehaveAlike(t *testing.T) {
	for name, s := range map[string]Store{"memory": OpenMemory(), "disk": mustOpen(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			for _, facts := range [][]gmg.Fact{{spec("b", 5), key("b", "laptop", 6)}, {spec("a", 7)}, {spec("b", 4)}, {tombstone("a", 8)}, {spec("c", 1)}} {
				if err := s.Put(facts...); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Delete(gmg.TenantKey("c"), gmg.TenantKey("never")); err != nil {
				t.Fatal(err)
			}
			want := []gmg.Fact{key("b", "laptop", 6), tombstone("a", 8), spec("b", 5)}
			if got := mustLoad(t, s); !reflect.DeepEqual(got, want) {
				t.Fatalf("got %+v\nwant %+v", got, want)
			}
			owned := gmg.Fact{Key: gmg.NodeKey("n"), Version: gmg.Version{Owner: "n", Seq: 1}, Value: gmg.Node{ID: "n"}}
			if err := s.Put(spec("d", 9), owned); !errors.Is(err, gmg.ErrFact) {
				t.Fatalf("a fact with an owner: %v", err)
			}
			if got := mustLoad(t, s); len(got) != len(want) {
				t.Fatalf("a refused Put left something: %+v", got)
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			if err := s.Put(spec("e", 1)); !errors.Is(err, ErrClosed) {
				t.Fatalf("after Close: %v", err)
			}
			if _, err := s.Load(); !errors.Is(err, ErrClosed) {
				t.Fatalf("after Close: %v", err)
			}
		})
	}
}

func TestReopened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "open")
	s := mustOpen(t, dir)
	if err := s.Put(spec("a", 1), tombstone("b", 2)); err != nil {
		t.Fatal(err)
	}
	before := mustLoad(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := mustLoad(t, mustOpen(t, dir)); !reflect.DeepEqual(got, before) {
		t.Fatalf("got %+v\nwant %+v", got, before)
	}
}

func TestLockedNamesTheRemedy(t *testing.T) {
	dir := t.TempDir()
	mustOpen(t, dir)
	_, err := open(dir, time.Millisecond)
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "--data") || !strings.Contains(err.Error(), dir) {
		t.Fatalf("second open: %v", err)
	}
}

// childEnv makes the test binary write tenants until it is killed.
const childEnv = "SPECSTORE_TEST_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		goleak.VerifyTestMain(m)
	}
	s, err := Open(dir)
	for i := int64(1); err == nil; i++ {
		if err = s.Put(spec(fmt.Sprint("t", i), i), spec("same", i)); err == nil {
			fmt.Println(i) // only what was returned counts as kept
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestSurvivesKill(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var kept int64
	for lines.Scan() {
		if _, err := fmt.Sscan(lines.Text(), &kept); err != nil {
			t.Fatalf("child said %q", lines.Text())
		}
		if kept == 20 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // killed
	if kept < 20 {
		t.Fatalf("the child stopped after %d", kept)
	}
	got := map[string]gmg.Fact{}
	for _, f := range mustLoad(t, mustOpen(t, dir)) {
		got[f.Key.ID] = f
	}
	for i := int64(1); i <= kept; i++ {
		if f, ok := got[fmt.Sprint("t", i)]; !ok || !reflect.DeepEqual(f, spec(fmt.Sprint("t", i), i)) {
			t.Fatalf("tenant %d of %d was lost: %+v", i, kept, f)
		}
	}
	if got["same"].Stamp.WallNs < kept {
		t.Fatalf("an update was lost: %+v, %d kept", got["same"], kept)
	}
}

// fullFile returns the bytes of a data file with n tenants.
func fullFile(t *testing.T, n int64) []byte {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	var facts []gmg.Fact
	for i := range n {
		facts = append(facts, spec(fmt.Sprint("tenant-", i), i+1))
	}
	if err := errors.Join(s.Put(facts...), s.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// openBytes opens a store whose file has the bytes b.
func openBytes(t *testing.T, b []byte) (s Store, dir string, err error) {
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, FileName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = Open(dir)
	return s, dir, err
}

func TestCutAnywhere(t *testing.T) {
	const tenants = 200
	whole := fullFile(t, tenants)
	refused := 0
	for n := 0; n < len(whole); n += os.Getpagesize() / 2 {
		s, dir, err := openBytes(t, whole[:n])
		switch {
		case n == 0: // an empty file is a new one
		case err == nil:
			if got := len(mustLoad(t, s)); got != tenants {
				t.Errorf("cut at %d of %d bytes: opened with %d of %d tenants", n, len(whole), got, tenants)
			}
		case !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir):
			t.Errorf("cut at %d of %d bytes: %v", n, len(whole), err)
		default:
			refused++
		}
		if err == nil {
			_ = s.Close()
		}
	}
	if refused == 0 {
		t.Error("no cut was noticed")
	}
}

func TestDamageIsNamed(t *testing.T) {
	whole := fullFile(t, 200)
	page := os.Getpagesize()
	for name, damage := range map[string]func(b []byte) []byte{
		"text":       func([]byte) []byte { return []byte(strings.Repeat("not a database\n", page)) },
		"both metas": func(b []byte) []byte { clear(b[:2*page]); return b },
		"cut short":  func(b []byte) []byte { return b[:5*page/2] },
		"a record":   func(b []byte) []byte { i := strings.Index(string(b), "model at 150"); b[i] = 'M'; return b },
		"zeroes":     func(b []byte) []byte { clear(b[4*page:]); return b },
		"noise": func(b []byte) []byte {
			for i := 2 * page; i < len(b); i++ {
				b[i] ^= byte(i * 167)
			}
			return b
		},
	} {
		s, dir, err := openBytes(t, damage(append([]byte(nil), whole...)))
		if err == nil {
			_ = s.Close()
		}
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFutureSchemaIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := mustOpen(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(filepath.Join(dir, FileName), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket(metaBucket).Put(schemaKey, binary.BigEndian.AppendUint32(nil, 2))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "version 2") {
		t.Fatalf("opened: %v", err)
	}
}

func TestTenantsSurviveTheStopOfEverything(t *testing.T) {
	dir := t.TempDir()
	life := func(incarnation uint64, do func(g *gmg.Store, s Store)) {
		s := mustOpen(t, dir)
		g := gmg.NewStore("n", incarnation)
		kept := mustLoad(t, s)
		if err := g.Restore(kept); err != nil {
			t.Fatal(err)
		}
		do(g, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	keep := func(s Store, f gmg.Fact, err error) {
		if err := errors.Join(err, s.Put(f)); err != nil {
			t.Fatal(err)
		}
	}
	life(1, func(g *gmg.Store, s Store) {
		for _, id := range []gmg.TenantID{"a", "b"} {
			f, err := g.PutShared(gmg.TenantSpec{ID: id, Model: "old"}, 100)
			keep(s, f, err)
		}
		f, err := g.PutShared(gmg.APIKey{Tenant: "a", Name: "k", Hash: "ab"}, 100)
		keep(s, f, err)
	})
	life(2, func(g *gmg.Store, s Store) { // the wall clock went back, and still the newer write counts
		f, err := g.PutShared(gmg.TenantSpec{ID: "a", Model: "new"}, 50)
		keep(s, f, err)
		f, err = g.DeleteShared(gmg.TenantKey("b"), 50)
		keep(s, f, err)
	})
	life(3, func(g *gmg.Store, _ Store) {
		snap := g.Snapshot()
		if tenants := snap.Tenants(); len(tenants) != 1 || tenants[0].Model != "new" {
			t.Errorf("tenants %+v", tenants)
		}
		if keys := snap.APIKeys("a"); len(keys) != 1 {
			t.Errorf("keys %+v", keys)
		}
	})
}
