package describe

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseAction reads an action as people type it: replicate:TENANT@DEVICE[,DEVICE..] adds a lane, move:TENANT#LANE@DEVICE[,DEVICE..] gives a lane
// other devices, evict:TENANT#LANE takes it away. Without #LANE it is the tenant's first.
func ParseAction(text string) (Action, error) {
	bad := func(reason string) (Action, error) {
		return Action{}, fmt.Errorf("%w: action %q: %s; write replicate:TENANT@DEVICE,.. or move:TENANT#LANE@DEVICE,.. or evict:TENANT#LANE", ErrWorld, text, reason)
	}
	kind, rest, ok := strings.Cut(text, ":")
	if !ok {
		return bad("it has no colon")
	}
	who, where, hasDevices := strings.Cut(rest, "@")
	tenant, lane, hasLane := strings.Cut(who, "#")
	a := Action{Kind: kind, Tenant: tenant}
	if tenant == "" {
		return bad("it names no tenant")
	}
	if hasLane {
		n, err := strconv.Atoi(lane)
		if err != nil || n < 0 {
			return bad(fmt.Sprintf("%q is no number of a lane", lane))
		}
		a.Lane = n
	}
	switch {
	case kind != "replicate" && kind != "move" && kind != "evict":
		return bad(fmt.Sprintf("%q is no kind of action", kind))
	case kind == "replicate" && hasLane:
		return bad("a new lane has no number yet")
	case kind == "evict" && hasDevices:
		return bad("an evicted lane goes to no device")
	case kind != "evict" && !hasDevices:
		return bad("it names no device")
	}
	if hasDevices {
		for _, d := range strings.Split(where, ",") {
			if d == "" {
				return bad("a device's name is empty")
			}
			a.To.Devices = append(a.To.Devices, d)
		}
	}
	return a, nil
}
