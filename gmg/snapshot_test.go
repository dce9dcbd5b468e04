package gmg

import (
	"reflect"
	"sync"
	"testing"
)

func TestAccessors(t *testing.T) {
	s := NewStore("a", 1)
	facts := oneOfEach()
	for _, f := range facts {
		var err error
		switch {
		case f.Deleted:
			_, err = s.DeleteShared(f.Key, 5)
		case f.Key.Kind.Shared():
			_, err = s.PutShared(f.Value, 5)
		default:
			err = s.Put(f.Value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mustPut(t, s, Node{ID: "b"}, Device{ID: "b/cpu0", Node: "b"}, Link{From: "a/cpu0", To: HostOf("a"), Kind: LinkHost})
	if _, err := s.PutShared(APIKey{Tenant: "tt", Name: "k"}, 6); err != nil {
		t.Fatal(err)
	}
	snap := s.Snapshot()
	one := func(v Value, ok bool) any {
		if !ok {
			return "absent"
		}
		return v
	}
	node, nodeOK := snap.Node("a")
	device, deviceOK := snap.Device("a/cpu0")
	lane, laneOK := snap.Lane("t#0")
	tenant, tenantOK := snap.Tenant("t")
	deviceState, deviceStateOK := snap.DeviceState("a/cpu0")
	tenantState, tenantStateOK := snap.TenantState("t")
	times, timesOK := snap.OperatorTimes("a/cpu0")
	graph, graphOK := snap.Graph("g")
	for key, got := range map[Key]any{
		NodeKey("a"): one(node, nodeOK), DeviceKey("a/cpu0"): one(device, deviceOK), LaneKey("t#0"): one(lane, laneOK),
		TenantKey("t"): one(tenant, tenantOK), DeviceStateKey("a/cpu0"): one(deviceState, deviceStateOK),
		TenantStateKey("t"): one(tenantState, tenantStateOK), OperatorTimesKey("a/cpu0"): one(times, timesOK), GraphKey("g"): one(graph, graphOK),
	} {
		for _, f := range facts {
			if f.Key == key && !reflect.DeepEqual(got, any(f.Value)) {
				t.Errorf("%v: got %+v, wants %+v", key, got, f.Value)
			}
		}
	}
	if _, ok := snap.Tenant("gone"); ok {
		t.Error("a deleted tenant is seen")
	}
	for name, lengths := range map[string][2]int{
		"nodes": {len(snap.Nodes()), 2}, "devices": {len(snap.Devices()), 2}, "links": {len(snap.Links()), 2}, "lanes": {len(snap.AllLanes()), 1},
		"lanes of t": {len(snap.Lanes("t")), 1}, "tenants": {len(snap.Tenants()), 1}, "graphs": {len(snap.Graphs()), 1},
		"keys of t": {len(snap.APIKeys("t")), 1}, "keys": {len(snap.AllAPIKeys()), 2}, "shared facts": {len(snap.SharedFacts()), 4},
	} {
		if lengths[0] != lengths[1] {
			t.Errorf("%d %s, wants %d", lengths[0], name, lengths[1])
		}
	}
	var first []Key
	snap.Each(KindDevice, func(f *Fact) bool {
		first = append(first, f.Key)
		return false
	})
	if len(first) != 1 || first[0] != DeviceKey("a/cpu0") {
		t.Errorf("Each went on to %v after it was told to stop", first)
	}
}

// TestSnapshotsAreReadWhileTheStoreIsWritten is for the race detector; each reader checks that its view is of one moment.
func TestSnapshotsAreReadWhileTheStoreIsWritten(t *testing.T) {
	s := NewStore("a", 1)
	const devices = 32
	round := func(n int) {
		for i := range devices {
			mustPut(t, s, DeviceState{Device: DeviceID(rune('A' + i)), Queued: n})
		}
	}
	round(0)
	var wg sync.WaitGroup
	for n := range 50 {
		round(n)
		snap := s.Snapshot()
		wg.Go(func() {
			snap.Each(KindDeviceState, func(f *Fact) bool {
				if got := f.Value.(DeviceState).Queued; got != n {
					t.Errorf("round %d sees %d", n, got)
				}
				return true
			})
			if d := snap.DeltaSince(nil); len(d.Facts) != devices {
				t.Errorf("%d facts", len(d.Facts))
			}
		})
	}
	wg.Wait()
}
