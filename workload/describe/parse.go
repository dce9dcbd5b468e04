package describe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// place is what stands behind the @ of an action.
type place uint8

const (
	placeNone place = iota
	placeDevices
	placeDevice
	placeLane
)

// ActionForm is how people type one kind of action, and what it means.
type ActionForm struct {
	Kind  string
	Form  string
	Means string
	lane  bool // #LANE may follow the tenant
	at    place
	value string // what stands behind the =, empty: nothing
}

// ActionForms are the kinds of actions in the order in which they are explained.
func ActionForms() []ActionForm {
	return []ActionForm{
		{"replicate", "replicate:TENANT@DEVICE[,DEVICE..]", "another lane, its layers in equal runs over the devices", false, placeDevices, ""},
		{"move", "move:TENANT#LANE@DEVICE[,DEVICE..]", "a lane goes to other devices", true, placeDevices, ""},
		{"evict", "evict:TENANT#LANE", "a lane goes", true, placeNone, ""},
		{"stream-prefill", "stream-prefill:TENANT@DEVICE[,DEVICE..]", "another lane, which hands its sequences over after their first token", false, placeDevices, ""},
		{"borrow-attention", "borrow-attention:TENANT#LANE@DEVICE=PERCENT", "a device attends for that share of a lane's decodes; 0 ends it", true, placeDevice, "PERCENT"},
		{"borrow-rows", "borrow-rows:TENANT#LANE@DEVICE=PERCENT", "a device runs that share of a lane's rows; 0 ends it", true, placeDevice, "PERCENT"},
		{"throttle", "throttle:TENANT=SEQUENCES", "at most so many run on each lane; 0 lifts it", false, placeNone, "SEQUENCES"},
		{"migrate", "migrate:TENANT#LANE@#LANE=SEQUENCE", "a sequence goes to another lane: N for the N-th request to come, rN for the N-th running one, from 0", true, placeLane, "SEQUENCE"},
	}
}

// ParseAction reads an action as people type it, in one of the ActionForms. Without #LANE it is the tenant's first lane.
func ParseAction(text string) (Action, error) {
	forms := ActionForms()
	kind, rest, colon := strings.Cut(text, ":")
	at := slices.IndexFunc(forms, func(f ActionForm) bool { return f.Kind == kind })
	if !colon || at < 0 {
		reason := "it has no colon"
		if colon {
			reason = fmt.Sprintf("%q is no kind of action", kind)
		}
		known := make([]string, len(forms))
		for i, f := range forms {
			known[i] = f.Form
		}
		return Action{}, fmt.Errorf("%w: action %q: %s; write one of %s", ErrWorld, text, reason, strings.Join(known, " "))
	}
	f := forms[at]
	a := Action{Kind: kind}
	if reason := f.parse(rest, &a); reason != "" {
		return Action{}, fmt.Errorf("%w: action %q: %s; write %s", ErrWorld, text, reason, f.Form)
	}
	return a, nil
}

// parse fills in what stands behind the kind, or says what is wrong with it.
func (f *ActionForm) parse(rest string, a *Action) string {
	if f.value != "" {
		cut := strings.LastIndexByte(rest, '=')
		if cut < 0 {
			return "it has no =" + f.value
		}
		if reason := f.parseValue(rest[cut+1:], a); reason != "" {
			return reason
		}
		rest = rest[:cut]
	}
	who, where, hasPlace := strings.Cut(rest, "@")
	tenant, lane, hasLane := strings.Cut(who, "#")
	switch {
	case tenant == "":
		return "it names no tenant"
	case hasLane && !f.lane:
		return "it takes no number of a lane"
	case hasPlace && f.at == placeNone:
		return "it goes to no device"
	case !hasPlace && f.at == placeLane:
		return "it names no lane to go to"
	case !hasPlace && f.at != placeNone:
		return "it names no device"
	}
	a.Tenant = tenant
	if hasLane {
		if reason := parseNumber(lane, "a lane", &a.Lane); reason != "" {
			return reason
		}
	}
	if !hasPlace {
		return ""
	}
	return f.parsePlace(where, a)
}

func (f *ActionForm) parsePlace(where string, a *Action) string {
	if f.at == placeLane {
		lane, ok := strings.CutPrefix(where, "#")
		if !ok {
			return "the lane to go to lacks its #"
		}
		return parseNumber(lane, "a lane", &a.ToLane)
	}
	devices := strings.Split(where, ",")
	switch {
	case slices.Contains(devices, ""):
		return "a device's name is empty"
	case f.at == placeDevices:
		a.To.Devices = devices
	case len(devices) > 1:
		return "it names more than one device"
	default:
		a.Helper = where
	}
	return ""
}

func (f *ActionForm) parseValue(text string, a *Action) string {
	switch f.value {
	case "PERCENT":
		return parseNumber(strings.TrimSuffix(text, "%"), "per cent", &a.Percent)
	case "SEQUENCES":
		return parseNumber(text, "sequences", &a.MaxSequences)
	}
	number, running := strings.CutPrefix(text, "r")
	a.OfRunning = running
	return parseNumber(number, "a sequence", &a.Sequence)
}

func parseNumber(text, of string, into *int) string {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Sprintf("%q is no number of %s", text, of)
	}
	*into = n
	return ""
}
