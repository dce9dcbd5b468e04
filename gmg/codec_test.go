package gmg

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"strings"
	"testing"
)

// oneOfEach is a fact of every kind.
func oneOfEach() []Fact {
	values := []Value{
		Node{ID: "a", Incarnation: 3, Version: "1.0", HTTPAddress: "127.0.0.1:7070", StartUnixNs: 1 << 60},
		Device{ID: "a/cpu0", Node: "a", Kind: DeviceCPU, PeakFLOPS: map[DType]float64{F32: 1e11, Q4_K: 2e11}, Healthy: true},
		Link{From: "a/cpu0", To: HostOf("a"), Kind: LinkMemory, BandwidthBytesPerS: 2.5e10, LatencyNs: 7},
		smallGraph(),
		Lane{ID: "t#0", Tenant: "t", Epoch: 9, Slices: []Slice{{Device: "a/cpu0", Stages: Range{0, 4}, Weights: Resident, KVBlocks: 4}}, Ready: true},
		DeviceState{Device: "a/cpu0", Ledger: Ledger{CapacityBytes: 10, Held: [NumMemoryClasses]int64{1, 2, 3, 4}}, FreeAtNs: 1<<62 + 1},
		TenantState{Tenant: "t", Waiting: []SequenceState{{ID: 1<<63 + 1, PromptTokens: 3}}, KVBlocksFree: 1},
		OperatorTimes{Device: "a/cpu0", Times: []OperatorTime{{Name: "qkv_proj", DType: Q8_0, Tokens: 8, MeanNs: 0.1, Count: 4}}},
		TenantSpec{ID: "t", Model: "m", ChatTemplate: "{{ \"\u2028\" }}", KeyHashes: []string{"h"}},
		APIKey{Tenant: "t", Name: "k", Prefix: "sk-ab", Hash: "00"},
	}
	facts := make([]Fact, len(values))
	for i, v := range values {
		facts[i] = Fact{Key: v.Key(), Version: Version{"a", 1<<61 + 5, uint64(i + 1)}, Claim: uint64(i), Value: v}
		if v.Key().Kind.Shared() {
			facts[i].Stamp = Stamp{1 << 61, 3, "b"}
		}
	}
	return append(facts, Fact{Key: TenantKey("gone"), Version: Version{"a", 1, 99}, Stamp: Stamp{WallNs: 1}, Deleted: true})
}

func TestCodecRoundTrip(t *testing.T) {
	facts := oneOfEach()
	kinds := map[Kind]bool{}
	for _, f := range facts {
		kinds[f.Key.Kind] = true
	}
	if len(kinds) != int(numKinds)-1 {
		t.Fatalf("%d of %d kinds are tried", len(kinds), numKinds-1)
	}
	d := Delta{Facts: facts, Spans: []Span{{"a", 1<<61 + 5, 2, 12}, {"gone", 4, 0, 0}}}
	b, err := EncodeDelta(d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeDelta(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, d) {
		t.Fatalf("got %+v\nwant %+v", got, d)
	}
}

// sealed replaces the checksum, so that what is behind it gets tested.
func sealed(b []byte) []byte {
	n := len(b) - codecTrailer
	return binary.LittleEndian.AppendUint32(b[:n:n], crc32.Checksum(b[:n], castagnoli))
}

func TestCodecRefusesDamage(t *testing.T) {
	good, err := EncodeFacts(oneOfEach())
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		flipped := append([]byte(nil), good...)
		flipped[i] ^= 0x10
		if _, err := DecodeFacts(flipped); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
			t.Fatalf("byte %d flipped: %v", i, err)
		}
		if _, err := DecodeFacts(good[:i]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	future := append([]byte(nil), good...)
	binary.LittleEndian.PutUint16(future[len(codecMagic):], codecVersion+1)
	if _, err := DecodeFacts(sealed(future)); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "version 2") {
		t.Fatalf("a future version: %v", err)
	}
	many := append([]byte(nil), good...)
	binary.LittleEndian.PutUint32(many[codecHeader-4:], 1<<31)
	if _, err := DecodeFacts(sealed(many)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("more records than there are: %v", err)
	}
	few := append([]byte(nil), good...)
	binary.LittleEndian.PutUint32(few[codecHeader-4:], 1)
	if _, err := DecodeFacts(sealed(few)); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("fewer records than there are: %v", err)
	}
}

func TestCodecRefusesWrongRecords(t *testing.T) {
	for name, record := range map[string]string{
		"not JSON":          `{`,
		"unknown kind":      `{"k":"planet","id":"x","o":"a","i":1,"s":1,"v":{}}`,
		"other type":        `{"k":"device","id":"d","o":"a","i":1,"s":1,"v":{"ID":7}}`,
		"other key":         `{"k":"device","id":"d","o":"a","i":1,"s":1,"v":{"ID":"e"}}`,
		"no value":          `{"k":"device","id":"d","o":"a","i":1,"s":1}`,
		"unknown dtype":     `{"k":"device","id":"d","o":"a","i":1,"s":1,"v":{"ID":"d","PeakFLOPS":{"F7":1}}}`,
		"hollow graph":      `{"k":"graph","id":"g","o":"a","i":1,"s":1,"v":{"ID":"g"}}`,
		"null graph":        `{"k":"graph","id":"g","o":"a","i":1,"s":1,"v":null}`,
		"unstamped tenant":  `{"k":"tenant-spec","id":"t","o":"a","i":1,"s":1,"v":{"ID":"t"}}`,
		"no owner":          `{"k":"node","id":"a","i":1,"s":1,"v":{"ID":"a"}}`,
		"no more lives":     `{"k":"node","id":"a","o":"a","i":18446744073709551615,"s":1,"v":{"ID":"a"}}`,
		"end of time":       `{"k":"tenant-spec","id":"t","o":"a","i":1,"s":1,"t":{"w":9223372036854775807,"n":"a"},"v":{"ID":"t"}}`,
		"span of nobody":    `{"i":1,"u":3}`,
		"span that recedes": `{"o":"a","i":1,"a":4,"u":3}`,
	} {
		b := append([]byte(codecMagic), codecVersion, 0, 1, 0, 0, 0)
		b = binary.AppendUvarint(b, uint64(len(record)))
		b = append(append(b, record...), 0, 0, 0, 0)
		if d, err := DecodeDelta(sealed(b)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func TestChunksCoverTheDelta(t *testing.T) {
	s := filled(t, 300)
	whole := s.Snapshot().DeltaSince(nil)
	chunks, err := EncodeDeltaChunks(whole, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if len(chunks) < 5 {
		t.Fatalf("%d chunks", len(chunks))
	}
	o := NewStore("o", 1)
	for i, b := range chunks {
		if len(b) > 4096+codecHeader+codecTrailer+100 {
			t.Errorf("chunk %d has %d bytes", i, len(b))
		}
		d, err := DecodeDelta(b)
		if err != nil {
			t.Fatal(err)
		}
		if m := mustMerge(t, o, d); len(m.Gaps) > 0 {
			t.Fatalf("chunk %d leaves a gap: %+v", i, m.Gaps)
		}
	}
	if got, want := o.Snapshot().Vector()["a"], s.Snapshot().Vector()["a"]; got != want {
		t.Fatalf("vector at %v, wants %v", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	good, err := EncodeDelta(Delta{Facts: oneOfEach(), Spans: []Span{{"a", 1, 0, 3}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(codecMagic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > codecTrailer {
			b = sealed(b)
		}
		d, err := DecodeDelta(b)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
				t.Fatalf("an error of neither kind: %v", err)
			}
			return
		}
		again, err := EncodeDelta(d)
		if err != nil {
			t.Fatalf("what was decoded can't be encoded: %v", err)
		}
		back, err := DecodeDelta(again)
		if err != nil || len(back.Facts) != len(d.Facts) || len(back.Spans) != len(d.Spans) {
			t.Fatalf("second decode: %v", err)
		}
		if _, err := NewStore("self", 1).Merge(d); err != nil {
			t.Fatalf("what was decoded can't be merged: %v", err)
		}
	})
}
