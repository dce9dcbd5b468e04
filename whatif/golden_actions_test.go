package whatif

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Goldens of actions beyond lanes' coming and going, each "at=NS" on a tenant and, where not said otherwise, its lane 0:
//
//	borrow-attention helper=DEVICE percent=P kv=BYTES
//	borrow-rows helper=DEVICE percent=P [load=NS]
//	throttle sequences=N
//	migrate request=R from=LANE to=LANE [stop=NS]
func (g *golden) otherAction(t *testing.T, d *datadriven.TestData) Action {
	number := func(key string) int {
		var v int
		d.MaybeScanArgs(t, key, &v)
		return v
	}
	var helper string
	d.MaybeScanArgs(t, "helper", &helper)
	tenant, lane := number("tenant"), number("lane")
	switch d.Cmd {
	case "borrow-attention":
		return BorrowAttention{tenant, lane, g.device(helper), number("percent"), int64(number("kv"))}
	case "borrow-rows":
		return BorrowRows{tenant, lane, g.device(helper), number("percent"), int64(number("load"))}
	case "throttle":
		return Throttle{tenant, number("sequences")}
	case "migrate":
		return MigrateSequence{Tenant: tenant, Request: number("request"), From: number("from"), To: number("to"), StopNs: int64(number("stop"))}
	}
	return nil
}

// take applies an action at a time and says what came of it.
func (g *golden) take(t *testing.T, d *datadriven.TestData, a Action) string {
	var at int
	d.MaybeScanArgs(t, "at", &at)
	g.sim.Run(int64(at))
	if err := g.sim.Apply(a); err != nil {
		text := err.Error() + "\n"
		if sh := g.sim.Forecast().Shortage; sh != nil {
			text += fmt.Sprintf("forecast names %+v\n", *sh)
		}
		return text
	}
	return "ok\n"
}
