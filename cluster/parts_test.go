package cluster

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/mdns"
	"github.com/hashicorp/memberlist"

	"slicescheduler/gmg"
)

func fullMeta() Meta {
	return Meta{Protocol: 0xffff, MinProtocol: 0xffff, Version: strings.Repeat("v", maxVersion), ActorAddress: strings.Repeat("a", maxAddress),
		TensorAddress: strings.Repeat("t", maxAddress), HTTPAddress: strings.Repeat("h", maxAddress), Leaving: true}
}

func TestMetadataStaysFarBelowTheLimit(t *testing.T) {
	b, err := fullMeta().Encode()
	if err != nil || len(b) > memberlist.MetaMaxSize/2 {
		t.Fatalf("the fullest metadata has %d bytes, %v", len(b), err)
	}
	if got, err := DecodeMeta(b); err != nil || got != fullMeta() {
		t.Errorf("came back as %+v, %v", got, err)
	}
	long := fullMeta()
	long.ActorAddress += "x"
	if _, err := long.Encode(); !errors.Is(err, ErrMeta) || !strings.Contains(err.Error(), "actor address") {
		t.Errorf("an address that is too long: %v", err)
	}
}

// What the first release sends must be read by all later ones, and what later ones append must be ignored by it.
func TestRecordedMetadata(t *testing.T) {
	recorded := "\x01\x01\x01\x01\x050.1.0\x0d10.0.0.3:7072\x0d10.0.0.3:7073\x15http://10.0.0.3:7070/"
	want := Meta{Protocol: 1, MinProtocol: 1, Version: "0.1.0", ActorAddress: "10.0.0.3:7072", TensorAddress: "10.0.0.3:7073",
		HTTPAddress: "http://10.0.0.3:7070/", Leaving: true}
	for _, b := range []string{recorded, recorded + "\x03new"} {
		if got, err := DecodeMeta([]byte(b)); err != nil || got != want {
			t.Errorf("read %+v, %v", got, err)
		}
	}
	if b, err := want.Encode(); err != nil || string(b) != recorded {
		t.Errorf("wrote %q, %v", b, err)
	}
}

func TestProtocolVersionsMustOverlap(t *testing.T) {
	for _, c := range []struct {
		low, high uint16
		ok        bool
	}{{1, 1, true}, {1, 2, true}, {2, 3, false}, {0, 0, false}, {0, 1, true}} {
		if err := (Meta{MinProtocol: c.low, Protocol: c.high}).compatible(); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrProtocol) {
			t.Errorf("%d to %d: %v", c.low, c.high, err)
		}
	}
}

func FuzzDecodeMeta(f *testing.F) {
	b, err := fullMeta().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{1, 0, 1, 1, 0, 0, 0, 0})
	f.Add([]byte{1, 0, 1, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMeta(b)
		if err != nil {
			if !errors.Is(err, ErrMeta) {
				t.Errorf("%v is no ErrMeta", err)
			}
			return
		}
		again, err := m.Encode()
		if err != nil {
			t.Fatalf("%+v was read but can't be written: %v", m, err)
		}
		if back, err := DecodeMeta(again); err != nil || back != m {
			t.Errorf("%+v came back as %+v, %v", m, back, err)
		}
	})
}

// FuzzNotices feeds what memberlist passes on from the network: names, addresses, metadata and clock payloads.
func FuzzNotices(f *testing.F) {
	b, err := fullMeta().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add("a@0000000000000001", []byte{127, 0, 0, 1}, b)
	f.Add("@", []byte{}, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, name string, addr, meta []byte) {
		m := &Membership{config: Config{Node: "me", Incarnation: 1}.withDefaults(), roster: newRoster(), changes: newQueue[any]()}
		d := &delegate{m}
		n := &memberlist.Node{Name: name, Addr: addr, Meta: meta, Port: 1}
		if d.NotifyAlive(n) == nil {
			if err := d.NotifyMerge([]*memberlist.Node{n}); err != nil && !errors.Is(err, ErrNameTaken) {
				t.Errorf("alive, but not merged: %v", err)
			}
		}
		d.NotifyJoin(n)
		d.NotifyUpdate(n)
		d.NotifyPingComplete(n, time.Millisecond, meta)
		d.NotifyLeave(n)
		d.NotifyMsg(meta)
		d.MergeRemoteState(meta, true)
		for _, item := range m.changes.take() {
			m.take(item, time.Unix(0, 0))
		}
	})
}

func TestSplitHostPort(t *testing.T) {
	for in, want := range map[string]string{"a": "a 9", "a:1": "a 1", ":0": " 0", "1.2.3.4": "1.2.3.4 9", "::1": "::1 9", "[::1]": "::1 9", "[::1]:5": "::1 5"} {
		host, port, err := SplitHostPort(in, 9)
		if got := host + " " + string(rune('0'+port)); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "a:b", "a:70000", "a:-1", "a:1:2"} {
		if _, _, err := SplitHostPort(in, 9); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestSeedsAreChecked(t *testing.T) {
	for _, text := range []string{":7071", "0.0.0.0:1", "[::]:1", "a:0", "srv:", "a:b"} {
		if _, err := parseSeeds([]string{text}); !errors.Is(err, ErrAddress) {
			t.Errorf("%q: %v", text, err)
		}
	}
	seeds, err := parseSeeds([]string{"", " a ", "mdns", "srv:_g._tcp.x", "b:1"})
	if err != nil || len(seeds) != 4 || seeds[0].port != DefaultGossipPort || !seeds[1].mdns || !seeds[2].srv {
		t.Errorf("%+v, %v", seeds, err)
	}
}

func TestResolveListsAllAddressesOnce(t *testing.T) {
	one, two, six := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("fd00::1")
	dns := fakeDNS{hosts: map[string][]netip.Addr{"x": {six, two, one, one}}, srv: map[string][]*net.SRV{"s": {{Target: "gone.", Port: 1}, {Target: "x.", Port: 2}}}}
	for text, want := range map[string]string{"x:5": "[10.0.0.1:5 10.0.0.2:5 [fd00::1]:5]", "srv:s": "[10.0.0.1:2 10.0.0.2:2 [fd00::1]:2]", "10.9.9.9:1": "[10.9.9.9:1]"} {
		seeds, err := parseSeeds([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		got, err := seeds[0].resolve(context.Background(), dns, nil)
		if list := strings.TrimSpace(joinAddresses(got)); err != nil || "["+list+"]" != want {
			t.Errorf("%s: %s, %v", text, list, err)
		}
	}
	if _, err := (seed{text: "y", host: "y"}).resolve(context.Background(), dns, nil); err == nil {
		t.Error("a name that isn't there was resolved")
	}
}

func joinAddresses(list []netip.AddrPort) string {
	var texts []string
	for _, a := range list {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, " ")
}

func TestOutwardRanks(t *testing.T) {
	v4, v6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	order := []string{"10.0.0.1", "fd00::1", "8.8.8.8", "2001:db8::1", "127.0.0.1", "::1"}
	for i := 1; i < len(order); i++ {
		if a, b := netip.MustParseAddr(order[i-1]), netip.MustParseAddr(order[i]); outwardRank(a, v6) <= outwardRank(b, v6) {
			t.Errorf("%v should stand before %v", a, b)
		}
	}
	for _, never := range []string{"169.254.0.1", "fe80::1", "224.0.0.1", "0.0.0.0"} {
		if outwardRank(netip.MustParseAddr(never), v6) != 0 {
			t.Errorf("%s would be advertised", never)
		}
	}
	if outwardRank(netip.MustParseAddr("fd00::1"), v4) != 0 {
		t.Error("an IPv6 address would stand for an IPv4 wildcard")
	}
}

// An answer from another host's loopback, or from another cluster, is no place to go.
func TestMDNSAnswersAreChosen(t *testing.T) {
	f := &mdnsFinder{cluster: "prod", host: "h1"}
	entry := func(ip, cluster, host string) *mdns.ServiceEntry {
		return &mdns.ServiceEntry{AddrV4: net.ParseIP(ip).To4(), Port: 1, InfoFields: []string{"cluster=" + cluster, "host=" + host}}
	}
	for _, c := range []struct {
		e  *mdns.ServiceEntry
		ok bool
	}{
		{entry("10.0.0.1", "prod", "h2"), true}, {entry("127.0.0.1", "prod", "h1"), true}, {entry("127.0.0.1", "prod", "h2"), false},
		{entry("10.0.0.1", "test", "h2"), false}, {entry("0.0.0.0", "prod", "h1"), false}, {&mdns.ServiceEntry{}, false},
		{&mdns.ServiceEntry{AddrV6IPAddr: &net.IPAddr{IP: net.ParseIP("fd00::1")}, Port: 1, InfoFields: f.texts()}, true},
	} {
		if _, ok := f.accept(c.e); ok != c.ok {
			t.Errorf("%+v: accepted %v", c.e, ok)
		}
	}
}

func TestRosterTellsLivesApart(t *testing.T) {
	r := newRoster()
	at := time.Unix(1000, 0)
	alive := func(name string, leaving bool) change {
		return change{name: name, alive: true, gossip: netip.MustParseAddrPort("10.0.0.1:1"), meta: Meta{Leaving: leaving}}
	}
	b1, b2 := memberName("b", 1), memberName("b", 2)
	steps := []struct {
		c    change
		want EventKind
	}{
		{alive(b1, false), EventJoined}, {alive(b1, false), ""}, {alive(b2, false), EventJoined}, {change{name: b1}, ""}, {change{name: b2}, EventLost},
		{change{name: b2}, ""}, {alive(b2, false), EventJoined}, {alive(b2, true), EventUpdated}, {change{name: b2}, EventLeft}, {change{name: b2}, ""},
		{alive(b2, false), EventJoined}, {change{name: b2, meta: Meta{Leaving: true}}, EventLeft}, {alive("no name", false), ""},
		{alive(b2, false), EventJoined}, {change{name: b2}, EventLost}, {alive(b1, false), EventJoined}, // a clock was set back
	}
	for i, s := range steps {
		e, happened := r.apply(s.c, at)
		if happened != (s.want != "") || e.Kind != s.want {
			t.Fatalf("step %d: %v %+v, want %q", i, happened, e, s.want)
		}
	}
	if e, _ := r.apply(change{name: b1}, at); e.Kind != EventLost || len(r.list("self")) != 1 {
		t.Errorf("got %+v, listed %+v", e, r.list("self"))
	}
	if r.forget(at.Add(time.Second)); len(r.list("self")) != 0 {
		t.Error("a long lost node is still listed")
	}
}

func TestFastestAnswerTellsTheClock(t *testing.T) {
	r := newRoster()
	name := memberName("b", 1)
	r.apply(change{name: name, alive: true}, time.Unix(0, 0))
	for _, s := range []sample{{name, 5 * time.Second, 30 * time.Millisecond}, {name, time.Hour, time.Millisecond}, {name, 7 * time.Second, 20 * time.Millisecond}, {"gone", 1, 1}} {
		r.clock(s)
	}
	if m := r.list("self")[0]; !m.Clocked || m.ClockOffset != time.Hour || m.RoundTrip != time.Millisecond {
		t.Errorf("got %+v", m)
	}
	for range clockSamples {
		r.clock(sample{name, time.Second, 40 * time.Millisecond})
	}
	if m := r.list("self")[0]; m.ClockOffset != time.Second {
		t.Errorf("an old answer counts for ever: %+v", m)
	}
	if _, ok := clockOffset([]byte{1, 2}, 0, 0); ok {
		t.Error("a short payload was read as a clock")
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "a b", "a@b", "a/b", strings.Repeat("x", 64), "ü"} {
		if ValidateName(bad) == nil {
			t.Errorf("%q is a name", bad)
		}
		if err := (Config{Node: gmg.NodeID(bad), Incarnation: 1}).Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	node, life, err := parseMemberName(memberName("n.1-x_y", 0xabc))
	if node != "n.1-x_y" || life != 0xabc || err != nil {
		t.Errorf("%s %x %v", node, life, err)
	}
	for _, bad := range []string{"a", "a@", "a@1", "a@000000000000000G", "@0000000000000001", "a@+000000000000001"} {
		if _, _, err := parseMemberName(bad); !errors.Is(err, ErrMeta) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if !reflect.DeepEqual(Config{}.withDefaults().Meta, Meta{Protocol: ProtocolVersion, MinProtocol: MinProtocolVersion}) {
		t.Error("the protocol versions are not filled in")
	}
}
