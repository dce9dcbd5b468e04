package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Pattern says how a generator spreads arrivals over time.
type Pattern string

// Patterns of arrivals.
const (
	// Poisson arrivals are independent of each other.
	Poisson Pattern = "poisson"
	// Bursty arrivals have Gamma-distributed gaps with the coefficient of variation Burstiness (above 1: bursts; 1 is Poisson).
	Bursty Pattern = "bursty"
	// Diurnal arrivals are Poisson with a rate that swings by Swing around its mean once every PeriodNs.
	Diurnal Pattern = "diurnal"
)

// Lengths is a log-normal distribution of token counts, cut to [1, Max].
type Lengths struct {
	Median float64
	Sigma  float64 // of the logarithm
	Max    int
}

// Generator describes a synthetic trace. The same figures and seed give the same trace.
type Generator struct {
	Seed       uint64
	Tenants    int
	RatePerS   float64 // of all tenants together
	LengthNs   int64
	Pattern    Pattern
	Burstiness float64 // Bursty
	Swing      float64 // Diurnal: 0 to 1
	PeriodNs   int64   // Diurnal
	Skew       float64 // popularity of the k-th tenant is proportional to k^-Skew
	Prompt     Lengths
	Output     Lengths
}

// Validate says what is wrong with a generator.
func (g Generator) Validate() error {
	switch {
	case g.Tenants < 1 || g.RatePerS <= 0 || g.LengthNs <= 0:
		return fmt.Errorf("%w: a generator needs tenants, a rate and a length above 0", ErrTrace)
	case g.Prompt.Median < 1 || g.Output.Median < 1 || g.Prompt.Max < 1 || g.Output.Max < 1 || g.Prompt.Sigma < 0 || g.Output.Sigma < 0:
		return fmt.Errorf("%w: lengths need a median and a maximum of at least 1 and a sigma of at least 0", ErrTrace)
	case g.Pattern == Bursty && g.Burstiness <= 0:
		return fmt.Errorf("%w: bursty arrivals need a burstiness above 0", ErrTrace)
	case g.Pattern == Diurnal && (g.Swing < 0 || g.Swing > 1 || g.PeriodNs <= 0):
		return fmt.Errorf("%w: diurnal arrivals need a swing of 0 to 1 and a period above 0", ErrTrace)
	case g.Pattern != Poisson && g.Pattern != Bursty && g.Pattern != Diurnal:
		return fmt.Errorf("%w: unknown pattern %q (poisson, bursty, diurnal)", ErrTrace, g.Pattern)
	case g.Skew < 0:
		return fmt.Errorf("%w: skew %g must not be negative", ErrTrace, g.Skew)
	}
	return nil
}

// Generate makes the trace. Every tenant has a stream of its own, so another tenant changes nothing of it.
func (g Generator) Generate() (*Trace, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	t := &Trace{Name: fmt.Sprintf("%s-%d", g.Pattern, g.Seed)}
	total := 0.0
	for k := range g.Tenants {
		total += math.Pow(float64(k+1), -g.Skew)
	}
	for k := range g.Tenants {
		rate := g.RatePerS * math.Pow(float64(k+1), -g.Skew) / total
		g.tenant(t, fmt.Sprintf("t%02d", k), rate, rand.New(rand.NewPCG(g.Seed, uint64(k))))
	}
	return t, t.finish()
}

// tenant appends one tenant's arrivals.
func (g Generator) tenant(t *Trace, name string, ratePerS float64, r *rand.Rand) {
	end := float64(g.LengthNs) / 1e9
	peak := ratePerS
	if g.Pattern == Diurnal {
		peak *= 1 + g.Swing
	}
	for at := g.gap(r, peak); at < end; at += g.gap(r, peak) {
		if g.Pattern == Diurnal {
			now := ratePerS * (1 + g.Swing*math.Sin(2*math.Pi*at*1e9/float64(g.PeriodNs)))
			if r.Float64()*peak >= now {
				continue // thinned (Lewis and Shedler, 1979)
			}
		}
		t.Arrivals = append(t.Arrivals, Arrival{ArrivalNs: int64(at * 1e9), Tenant: name, PromptTokens: g.Prompt.draw(r), OutputTokens: g.Output.draw(r)})
	}
}

// gap draws the seconds to the next arrival.
func (g Generator) gap(r *rand.Rand, ratePerS float64) float64 {
	if g.Pattern != Bursty {
		return r.ExpFloat64() / ratePerS
	}
	shape := 1 / (g.Burstiness * g.Burstiness)
	return gamma(r, shape) / (shape * ratePerS)
}

// gamma draws from a Gamma distribution of unit scale (Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if u := 1 - r.Float64(); math.Log(u) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

func (l Lengths) draw(r *rand.Rand) int {
	return min(max(1, int(math.Round(l.Median*math.Exp(l.Sigma*r.NormFloat64())))), l.Max)
}
