package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/gmg"
)

// Totals add up a tenant's answers.
type Totals struct {
	Answers, Tokens int
	TTFT, Decoding  time.Duration // sums
	steps           int           // tokens after the first of each answer
}

// Add counts one answer.
func (t *Totals) Add(a Answer) {
	t.Answers++
	t.Tokens += a.Tokens
	t.TTFT += a.TTFT
	t.Decoding += a.Decoding
	t.steps += max(0, a.Tokens-1)
}

// MeanTTFT and TPOT are the means over all answers.
func (t *Totals) MeanTTFT() time.Duration { return t.TTFT / time.Duration(max(1, t.Answers)) }
func (t *Totals) TPOT() time.Duration     { return t.Decoding / time.Duration(max(1, t.steps)) }

// TokensPerS is the speed at which answers came, the wait for their first tokens included.
func (t *Totals) TokensPerS() float64 {
	took := t.TTFT + t.Decoding
	if took <= 0 {
		return 0
	}
	return float64(t.Tokens) / took.Seconds()
}

func ms(d time.Duration) string { return term.Ms(float64(d.Nanoseconds()) / 1e6) }

// PrintSummary writes the tables at the end: what each tenant got and where its slices ran, how full each device was.
func PrintSummary(ctx context.Context, w io.Writer, api actors.API, tenants []Tenant, totals []Totals, firstToken time.Duration) error {
	var rows [][]string
	for i, t := range tenants {
		status, err := api.Tenant(ctx, t.Spec.ID)
		if err != nil {
			return err
		}
		sum := &totals[i]
		rows = append(rows, []string{string(t.Spec.ID), t.Spec.Model, fmt.Sprint(sum.Tokens), ms(sum.MeanTTFT()), ms(sum.TPOT()),
			fmt.Sprintf("%.0f", sum.TokensPerS()), slaText(status.SLA), where(status.Lanes)})
	}
	header := []string{"TENANT", "MODEL", "TOKENS", "TTFT", "TPOT", "TOK/S", "SLA", "STAGES ON"}
	if err := term.Table(w, header, rows); err != nil {
		return err
	}
	devices, err := api.Devices(ctx)
	if err != nil {
		return err
	}
	rows = nil
	for _, d := range devices {
		used := d.Device.MemoryBytes - d.FreeBytes
		rows = append(rows, []string{shortDevice(d.Device.ID), fmt.Sprintf("%.0f %%", fill(d)*100), term.Bytes(d.Device.MemoryBytes), term.Bytes(d.Held[gmg.MemWeights.String()]),
			term.Bytes(d.Held[gmg.MemKV.String()]), term.Bytes(used - d.Held[gmg.MemWeights.String()] - d.Held[gmg.MemKV.String()]), fmt.Sprintf("%.0f %%", d.BusyPct)})
	}
	fmt.Fprintln(w)
	if err := term.Table(w, []string{"DEVICE", "FULL", "MEMORY", "WEIGHTS", "KV", "WORKSPACE", "BUSY"}, rows); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nFirst token %s after the start of the process.\n", ms(firstToken))
	return err
}

// slaText says how many of the requests kept their SLA.
func slaText(s actors.SLAStatus) string {
	return fmt.Sprintf("%d/%d kept", s.Requests-s.Violations, s.Requests)
}

// where writes a tenant's slices as the stages that each device runs.
func where(lanes []gmg.Lane) string {
	var parts []string
	for _, l := range lanes {
		for _, s := range l.Slices {
			parts = append(parts, fmt.Sprintf("%s:%d-%d", shortDevice(s.Device), s.Stages.From, s.Stages.To-1))
		}
	}
	return strings.Join(parts, " ")
}

// shortDevice leaves the node out of a device's name: there is only one.
func shortDevice(id gmg.DeviceID) string {
	name := string(id)
	return name[strings.LastIndexByte(name, '/')+1:]
}

// fill is the share of a device's memory that is held.
func fill(d actors.DeviceStatus) float64 {
	if d.Device.MemoryBytes == 0 {
		return 0
	}
	return float64(d.Device.MemoryBytes-d.FreeBytes) / float64(d.Device.MemoryBytes)
}
