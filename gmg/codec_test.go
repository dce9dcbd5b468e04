package gmg

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
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
	const device, tenant = "device", "tenant-spec"
	fact := func(kind, id string, owner NodeID, incarnation, seq uint64, flags byte, rest string) []byte {
		var e encoder
		e.text(kind)
		e.text(id)
		e.text(string(owner))
		e.number(incarnation)
		e.number(seq)
		e.number(0)
		return append(append(e.record, flags), rest...)
	}
	span := func(owner NodeID, numbers ...uint64) []byte {
		var e encoder
		e.text("")
		e.text(string(owner))
		for _, n := range numbers {
			e.number(n)
		}
		return e.record
	}
	good := fact(device, "d", "a", 1, 1, 0, `{"id":"d"}`)
	if d, err := decodeRecord(good); err != nil || len(d.Facts) != 1 {
		t.Fatalf("a good record: %+v, %v", d, err)
	}
	for name, record := range map[string][]byte{
		"nothing":           nil,
		"long text":         {200, 1, 'x'},
		"endless number":    {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"unknown kind":      fact("planet", "x", "a", 1, 1, 0, `{}`),
		"not JSON":          fact(device, "d", "a", 1, 1, 0, `{`),
		"other type":        fact(device, "d", "a", 1, 1, 0, `{"id":7}`),
		"other key":         fact(device, "d", "a", 1, 1, 0, `{"id":"e"}`),
		"no value":          fact(device, "d", "a", 1, 1, 0, ``),
		"unknown flag":      fact(device, "d", "a", 1, 1, 4, `{"id":"d"}`),
		"unknown dtype":     fact(device, "d", "a", 1, 1, 0, `{"id":"d","peakFlops":{"F7":1}}`),
		"hollow graph":      fact("graph", "g", "a", 1, 1, 0, `{"ID":"g"}`),
		"null graph":        fact("graph", "g", "a", 1, 1, 0, `null`),
		"unstamped tenant":  fact(tenant, "t", "a", 1, 1, 0, `{"id":"t"}`),
		"no owner":          fact(device, "d", "", 1, 1, 0, `{"id":"d"}`),
		"no sequence":       fact(device, "d", "a", 1, 0, 0, `{"id":"d"}`),
		"no more lives":     fact(device, "d", "a", math.MaxUint64, 1, 0, `{"id":"d"}`),
		"end of time":       fact(tenant, "t", "a", 1, 1, flagStamped, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x01a"+`{"id":"t"}`),
		"cut stamp":         fact(tenant, "t", "a", 1, 1, flagStamped, "\x01"),
		"span of nobody":    span("", 1, 0, 3),
		"span that recedes": span("a", 1, 4, 3),
		"cut span":          span("a", 1, 4),
	} {
		if d, err := decodeRecord(record); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

func decodeRecord(record []byte) (Delta, error) {
	e := encoder{record: record}
	e.end()
	return DecodeDelta(e.bytes())
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
