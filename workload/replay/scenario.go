package replay

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"slicescheduler/whatif"
	"slicescheduler/workload"
)

// ErrScenario is returned for a scenario that makes no sense.
var ErrScenario = errors.New("invalid scenario")

//go:embed scenarios/*.yaml
var embedded embed.FS

// Scenario is a cluster, its tenants and a piece of a trace. It is read as YAML.
type Scenario struct {
	Name    string      `json:"name"`
	Devices DeviceGroup `json:"devices"`
	Links   LinkKinds   `json:"links"`
	Tenants TenantGroup `json:"tenants"`
	Trace   TraceSource `json:"trace"`
	// WindowS is the length of the piece that is scored, from the trace's start; 0: 1200. The knobs are tuned, and the past is measured, on the piece from
	// TuneFromS to TuneToS; both 0: as much again after the scored piece, or the scored piece itself where the trace ends with it.
	WindowS   float64 `json:"windowS"`
	TuneFromS float64 `json:"tuneFromS"`
	TuneToS   float64 `json:"tuneToS"`
	// DrainS is how long a run goes on after its last arrival at most; 0: 1200.
	DrainS float64 `json:"drainS"`
}

// DeviceGroup are the accelerators, all of one kind.
type DeviceGroup struct {
	Kind       string  `json:"kind"` // of whatif.HardwareKinds
	Count      int     `json:"count"`
	PerHost    int     `json:"perHost"`    // 0: all on one host
	LoadGBPerS float64 `json:"loadGBPerS"` // of weights from host memory to one device; 0: 25
}

// LinkKinds are the paths between two devices of one host and of different hosts; zeroes mean 20 GB/s, 20 us, 100 Gb/s and 50 us.
type LinkKinds struct {
	PeerGBPerS       float64 `json:"peerGBPerS"`
	PeerLatencyUs    float64 `json:"peerLatencyUs"`
	BetweenGbitPerS  float64 `json:"betweenGbitPerS"`
	BetweenLatencyUs float64 `json:"betweenLatencyUs"`
}

// TenantGroup says which models the trace's tenants serve. Tenants are ranked by demand, the prompt and answer tokens that the whole trace asks of them.
type TenantGroup struct {
	Model        string       `json:"model"`        // unless Others says otherwise
	MaxSequences int          `json:"maxSequences"` // that run at a time on a lane; 0: 256
	Others       []OtherModel `json:"others"`
}

// OtherModel gives a model to the tenants of certain ranks, counted from 1: those listed, or every n-th from the first.
type OtherModel struct {
	Model string `json:"model"`
	Ranks []int  `json:"ranks"`
	First int    `json:"first"`
	Every int    `json:"every"`
}

// TraceSource is a file or a generator.
type TraceSource struct {
	File     string     `json:"file"` // relative to the data directory, unless absolute
	Generate *Generator `json:"generate"`
}

// Generator is a workload.Generator as scenarios write it; its length is what the windows need.
type Generator struct {
	Seed       uint64  `json:"seed"`
	Tenants    int     `json:"tenants"`
	RatePerS   float64 `json:"ratePerS"`
	Pattern    string  `json:"pattern"`
	Burstiness float64 `json:"burstiness"`
	Swing      float64 `json:"swing"`
	PeriodS    float64 `json:"periodS"`
	Skew       float64 `json:"skew"`
	Prompt     Lengths `json:"prompt"`
	Output     Lengths `json:"output"`
}

// Lengths are workload.Lengths as scenarios write them.
type Lengths struct {
	Median float64 `json:"median"`
	Sigma  float64 `json:"sigma"`
	Max    int     `json:"max"`
}

// Names lists the embedded scenarios.
func Names() []string {
	return []string{"conv-8", "large-8", "reason-8", "pack-64", "synthetic-8", "synthetic-64"}
}

// Find returns an embedded scenario by name, else the one that a file of that name describes.
func Find(name string) (*Scenario, error) {
	if slices.Contains(Names(), name) {
		f, err := embedded.Open("scenarios/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return Read(f, name)
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %q is neither a scenario (%s) nor a file", ErrScenario, name, strings.Join(Names(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	defer f.Close()
	return Read(f, name)
}

// Read reads a scenario; name stands in errors, and for the scenario's own name where it has none.
func Read(r io.Reader, name string) (*Scenario, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	s := &Scenario{}
	if err := yaml.UnmarshalWithOptions(data, s, yaml.Strict(), yaml.UseJSONUnmarshaler()); err != nil {
		return nil, fmt.Errorf("%w: %s: %v", ErrScenario, name, err)
	}
	if s.Name == "" {
		s.Name = name
	}
	s.fill()
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

// fill replaces zeroes by what they mean.
func (s *Scenario) fill() {
	for _, d := range []struct {
		v *float64
		d float64
	}{
		{&s.WindowS, 1200}, {&s.DrainS, 1200}, {&s.Devices.LoadGBPerS, 25}, {&s.Links.PeerGBPerS, 20}, {&s.Links.PeerLatencyUs, 20},
		{&s.Links.BetweenGbitPerS, 100}, {&s.Links.BetweenLatencyUs, 50},
	} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if s.Devices.PerHost == 0 {
		s.Devices.PerHost = s.Devices.Count
	}
	if s.Tenants.MaxSequences == 0 {
		s.Tenants.MaxSequences = 256
	}
}

// Validate says what is wrong with a scenario.
func (s *Scenario) Validate() error {
	for _, v := range []float64{s.WindowS, s.DrainS, s.Devices.LoadGBPerS, s.Links.PeerGBPerS, s.Links.PeerLatencyUs, s.Links.BetweenGbitPerS, s.Links.BetweenLatencyUs} {
		if v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("%w: windows, drainS and the speeds of links must be above 0, one is %g", ErrScenario, v)
		}
	}
	switch {
	case s.Devices.Count < 1 || s.Devices.Count > maxDevices || s.Devices.PerHost < 1:
		return fmt.Errorf("%w: devices: count is %d and perHost %d; it needs 1 to %d devices and at least one on a host", ErrScenario, s.Devices.Count, s.Devices.PerHost, maxDevices)
	case (s.Trace.File == "") == (s.Trace.Generate == nil):
		return fmt.Errorf("%w: trace: name either a file or what to generate", ErrScenario)
	case s.TuneFromS < 0 || s.TuneToS < s.TuneFromS:
		return fmt.Errorf("%w: tuneFromS %g and tuneToS %g must be in order and not negative", ErrScenario, s.TuneFromS, s.TuneToS)
	case s.Tenants.MaxSequences < 1:
		return fmt.Errorf("%w: tenants: maxSequences is %d, must be at least 1", ErrScenario, s.Tenants.MaxSequences)
	}
	if _, err := whatif.FindHardware(s.Devices.Kind); err != nil {
		return fmt.Errorf("%w: devices: kind %q is none of %s", ErrScenario, s.Devices.Kind, strings.Join(hardwareNames(), ", "))
	}
	for _, m := range append([]OtherModel{{Model: s.Tenants.Model}}, s.Tenants.Others...) {
		if _, err := whatif.FindArchitecture(m.Model); err != nil {
			return fmt.Errorf("%w: tenants: model %q is none of %s", ErrScenario, m.Model, strings.Join(modelNames(), ", "))
		}
		if m.Every < 0 || m.First < 0 || m.Every == 0 && m.First > 0 {
			return fmt.Errorf("%w: tenants: model %s has first %d and every %d; every must be at least 1", ErrScenario, m.Model, m.First, m.Every)
		}
	}
	if g := s.Trace.Generate; g != nil {
		if err := g.workload(1).Validate(); err != nil {
			return fmt.Errorf("%w: trace: %w", ErrScenario, err)
		}
	}
	return nil
}

// maxDevices bounds a cluster: links are listed one by one.
const maxDevices = 1024

func hardwareNames() []string {
	var out []string
	for _, h := range whatif.HardwareKinds() {
		out = append(out, h.Name)
	}
	return out
}

func modelNames() []string {
	var out []string
	for _, a := range whatif.Architectures() {
		out = append(out, a.Name)
	}
	return out
}

// modelOf returns the model of the tenant of a rank, counted from 0.
func (g *TenantGroup) modelOf(rank int) string {
	for _, o := range g.Others {
		if slices.Contains(o.Ranks, rank+1) || o.Every > 0 && rank+1 >= o.First && (rank+1-o.First)%o.Every == 0 {
			return o.Model
		}
	}
	return g.Model
}

// workload turns a generator's description into a generator for a length.
func (g *Generator) workload(lengthNs int64) workload.Generator {
	return workload.Generator{
		Seed: g.Seed, Tenants: g.Tenants, RatePerS: g.RatePerS, LengthNs: lengthNs, Pattern: workload.Pattern(g.Pattern), Burstiness: g.Burstiness,
		Swing: g.Swing, PeriodNs: int64(g.PeriodS * 1e9), Skew: g.Skew, Prompt: workload.Lengths(g.Prompt), Output: workload.Lengths(g.Output),
	}
}

// UseTrace replaces the trace by a file; its name counts from the working directory.
func (s *Scenario) UseTrace(path string) {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	s.Trace = TraceSource{File: path}
	s.TuneFromS, s.TuneToS = 0, 0
	s.Name += " with " + filepath.Base(path)
}

// UseDevices replaces the devices, written as KIND*N.
func (s *Scenario) UseDevices(text string) error {
	kind, count, ok := strings.Cut(text, "*")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("%w: devices %q; write KIND*N, for example RTX4090*8", ErrScenario, text)
	}
	s.Devices.Kind, s.Devices.Count = kind, n
	s.Name += " on " + text
	return nil
}

// UseWindow scores another length of the trace; what is tuned on follows it.
func (s *Scenario) UseWindow(seconds float64) {
	s.WindowS, s.TuneFromS, s.TuneToS = seconds, 0, 0
	s.Name += fmt.Sprintf(" for %g s", seconds)
}
