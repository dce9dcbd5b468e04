package gmg

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// ErrLane and ErrTenant are returned for lanes and tenant specs that can't be.
var (
	ErrLane   = errors.New("invalid lane")
	ErrTenant = errors.New("invalid tenant")
)

// Validate checks that a lane's slices are non-empty, join without a hole and cover the graph.
func (l Lane) Validate(g *Graph) error {
	if !strings.HasPrefix(string(l.ID), string(l.Tenant)+"#") || l.Tenant == "" {
		return fmt.Errorf("%w: %s is no lane of tenant %q", ErrLane, l.ID, l.Tenant)
	}
	next := 0
	for i, s := range l.Slices {
		switch {
		case s.Device == "":
			return fmt.Errorf("%w: %s: slice %d has no device", ErrLane, l.ID, i)
		case s.Stages.Len() <= 0:
			return fmt.Errorf("%w: %s: slice %d is empty: stages [%d, %d)", ErrLane, l.ID, i, s.Stages.From, s.Stages.To)
		case s.Stages.From != next:
			return fmt.Errorf("%w: %s: slice %d begins at stage %d, wants %d", ErrLane, l.ID, i, s.Stages.From, next)
		case s.KVBlocks < 0 || s.KVBytes < 0 || s.WeightBytes < 0 || s.LoadedBytes < 0 || s.LoadedBytes > s.WeightBytes:
			return fmt.Errorf("%w: %s: slice %d has impossible sizes", ErrLane, l.ID, i)
		}
		next = s.Stages.To
	}
	if next != len(g.Stages) {
		return fmt.Errorf("%w: %s covers %d of %d stages", ErrLane, l.ID, next, len(g.Stages))
	}
	return nil
}

// MaxTenantName is the longest name of a tenant, in bytes.
const MaxTenantName = 128

// Limits of a tenant's figures; they only keep nonsense out.
const (
	maxTenantMs    = 24 * 3600 * 1000
	maxTenantCount = 1 << 24
)

// TenantError is an ErrTenant that names the field at fault as TenantSpec's JSON does.
type TenantError struct {
	Field, Reason string
}

func (e *TenantError) Error() string        { return ErrTenant.Error() + ": " + e.Reason }
func (e *TenantError) Is(target error) bool { return target == ErrTenant }

func badTenant(field, format string, args ...any) error {
	return &TenantError{field, fmt.Sprintf(format, args...)}
}

// Validate checks a tenant spec as people submit it. The error is a *TenantError. Names are letters, digits and "-_.", so that they fit in URLs, lane ids and listings.
func (s TenantSpec) Validate() error {
	if s.ID == "" || len(s.ID) > MaxTenantName {
		return badTenant("id", "a name has 1 to %d characters, %q has %d", MaxTenantName, s.ID, len(s.ID))
	}
	for i, r := range string(s.ID) {
		letter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !letter && (i == 0 || !strings.ContainsRune("-_.", r)) {
			return badTenant("id", "name %q: use letters, digits, '-', '_' and '.', beginning with a letter or digit", s.ID)
		}
	}
	if s.Model == "" {
		return badTenant("model", "%s has no model", s.ID)
	}
	for _, f := range [...]struct {
		field, name  string
		value, limit int64
	}{
		{"ttftMs", "TTFT", s.TTFTMs, maxTenantMs}, {"tpotMs", "TPOT", s.TPOTMs, maxTenantMs},
		{"maxSequences", "max sequences", int64(s.MaxSequences), maxTenantCount}, {"maxQueue", "max queue", int64(s.MaxQueue), maxTenantCount},
		{"maxContext", "max context", int64(s.MaxContext), maxTenantCount}, {"splitOver", "split over", int64(s.SplitOver), maxTenantCount},
	} {
		if f.value < 0 || f.value > f.limit {
			return badTenant(f.field, "%s: %s of %d is not within 0 and %d", s.ID, f.name, f.value, f.limit)
		}
	}
	return nil
}
