package actors

import (
	"fmt"
	goruntime "runtime"
	"testing"

	"slicescheduler/gmg"
)

// Heap that a node may hold more after many requests than after few; its state holds one thing per live request only.
const soakSlackBytes = 1 << 20

// soak runs short requests, several at a time.
func (n *testNode) soak(requests int) {
	n.t.Helper()
	const together = 20
	for done := 0; done < requests; done += together {
		streams := make([]Stream, together)
		for i := range streams {
			s, err := n.Generate(n.t.Context(), greedy("a", fmt.Sprintf("soak %d", (done+i)%100), 4))
			if err != nil {
				n.t.Fatal(err)
			}
			streams[i] = s
		}
		for i, s := range streams {
			if i%10 == 9 {
				s.Close() // its client is gone
			} else {
				read(n.t, s)
			}
		}
	}
}

func heapBytes() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// After ten thousand requests a node holds what it held after a hundred: pages, memory of devices, heap.
func TestMemoryAfterManyRequests(t *testing.T) {
	few, many := 100, 10_000
	if testing.Short() {
		many = 1000
	}
	bubble(t, func(t *testing.T) {
		n := start(t, NodeConfig{Limits: Limits{KVSharePct: 2}}) // the device fills its simulated pages as they are used, so there should be few
		defer n.stop()
		n.submit(gmg.TenantSpec{ID: "a"})
		n.await("a", stateReady)
		n.soak(few)
		heap, held := heapBytes(), n.devices[0].Ledger().HeldBytes()
		n.soak(many)
		n.awaitIdle("a")
		if now := n.devices[0].Ledger().HeldBytes(); now != held {
			t.Errorf("%d bytes held on the device, before %d", now, held)
		}
		after := heapBytes()
		t.Logf("heap %d KiB after %d requests, %d KiB after %d", heap>>10, few, after>>10, few+many)
		if after > heap+soakSlackBytes {
			t.Errorf("heap grew from %d to %d bytes", heap, after)
		}
	})
}
