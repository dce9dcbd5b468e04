package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/client"
	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/gmg"
)

// pollPeriod is how often a loading tenant is looked at.
const pollPeriod = 50 * time.Millisecond

// stateFailed and stateReady are the states at which waiting for a tenant ends.
const (
	stateReady  = "ready"
	stateFailed = "failed"
)

func (a *app) tenantCommand() *cobra.Command {
	list := listing(a, "list", "List the tenants", (*client.Client).Tenants,
		[]string{"TENANT", "MODEL", "STATE", "DEVICES", "RUNNING", "WAITING", "REQUESTS", "TOKENS", "TTFT P50", "TPOT P50", "VIOLATIONS"}, tenantRow)
	return group("tenant", "Submit, list, show and remove tenants", a.tenantSubmitCommand(), list, a.tenantShowCommand(), a.tenantRemoveCommand())
}

func tenantRow(t actors.TenantStatus) []string {
	return []string{string(t.Spec.ID), t.Spec.Model, t.State, strings.Join(devicesOf(t), ","), fmt.Sprint(t.Running), fmt.Sprint(t.Waiting),
		fmt.Sprint(t.SLA.Requests), fmt.Sprint(t.SLA.CompletionTokens), term.Ms(t.SLA.TTFTMs.P50), term.Ms(t.SLA.TPOTMs.P50),
		fmt.Sprintf("%.1f %%", t.SLA.ViolationsPct)}
}

// devicesOf names the devices of a tenant's lanes in order.
func devicesOf(t actors.TenantStatus) []string {
	var names []string
	for _, l := range t.Lanes {
		for _, s := range l.Slices {
			names = append(names, string(s.Device))
		}
	}
	return names
}

// tenantFlags are the flags of tenant submit.
type tenantFlags struct {
	spec         gmg.TenantSpec
	ttft, tpot   time.Duration
	templateFile string
	wait         bool
}

func (a *app) tenantSubmitCommand() *cobra.Command {
	var f tenantFlags
	cmd := a.clientFlags(&cobra.Command{Use: "submit NAME --model MODEL", Short: "Serve a model under a name", Args: cobra.ExactArgs(1),
		Example: "  slicer tenant submit alice --model tiny-story --ttft 500ms --tpot 50ms",
		RunE:    run(func(ctx context.Context, args []string) error { return a.submitTenant(ctx, gmg.TenantID(args[0]), f) })})
	flags := cmd.Flags()
	flags.StringVar(&f.spec.Model, "model", "", "`model` to serve: a name from slicer models, or a path on the node")
	flags.DurationVar(&f.ttft, "ttft", 0, "promised time to first token; 0 for five times the request alone, at least 1s")
	flags.DurationVar(&f.tpot, "tpot", 0, "promised time per output token; 0 for twice the request alone, at least 50ms")
	flags.IntVar(&f.spec.Priority, "priority", 0, "requests of a higher priority come first")
	flags.IntVar(&f.spec.MaxSequences, "max-sequences", 0, "sequences in one step; 0 for the node's default")
	flags.IntVar(&f.spec.MaxQueue, "max-queue", 0, "requests that may wait; 0 for the node's default")
	flags.IntVar(&f.spec.MaxContext, "max-context", 0, "tokens of one request; 0 for the model's")
	flags.IntVar(&f.spec.SplitOver, "split-over", 0, "share the layers over at least so many devices")
	flags.StringVar(&f.templateFile, "chat-template", "", "`file` with a chat template in place of the model's own")
	flags.BoolVar(&f.wait, "wait", true, "wait until the model is loaded")
	return cmd
}

func (a *app) submitTenant(ctx context.Context, id gmg.TenantID, f tenantFlags) error {
	s := f.spec
	s.ID, s.TTFTMs, s.TPOTMs = id, f.ttft.Milliseconds(), f.tpot.Milliseconds()
	if s.Model == "" {
		return usagef("tenant %s has no model: name one with --model, see slicer models", id)
	}
	for name, promised := range map[string]time.Duration{"ttft": f.ttft, "tpot": f.tpot} {
		if promised%time.Millisecond != 0 {
			return usagef("--%s %v: promises are in whole milliseconds", name, promised)
		}
	}
	if err := s.Validate(); err != nil {
		return &usageError{err}
	}
	if f.templateFile != "" {
		var err error
		if s.ChatTemplate, err = readTemplate(f.templateFile); err != nil {
			return err
		}
	}
	// The node may run in another folder.
	if st, err := os.Stat(s.Model); err == nil && st.Mode().IsRegular() {
		if s.Model, err = filepath.Abs(s.Model); err != nil {
			return err
		}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := c.SubmitTenant(ctx, s); err != nil {
		return err
	}
	if !f.wait {
		fmt.Fprintf(a.out, "%s is loading %s\n", id, s.Model)
		return nil
	}
	return a.awaitTenant(ctx, c, id)
}

// maxTemplateBytes is far above what chat templates have.
const maxTemplateBytes = 1 << 20

func readTemplate(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("chat template: %w", err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxTemplateBytes+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("chat template: %w", err)
	case len(data) == 0 || len(data) > maxTemplateBytes || !utf8.Valid(data):
		return "", fmt.Errorf("chat template: %s is no text of 1 to %d bytes", path, maxTemplateBytes)
	}
	return string(data), nil
}

// awaitTenant waits until a tenant is ready or has failed.
func (a *app) awaitTenant(ctx context.Context, c *client.Client, id gmg.TenantID) error {
	meter := term.NewMeter(a.err, time.Now)
	defer meter.Clear()
	ticker := time.NewTicker(pollPeriod)
	defer ticker.Stop()
	for {
		t, err := c.Tenant(ctx, id)
		if err != nil {
			return err
		}
		switch t.State {
		case stateReady:
			meter.Clear()
			fmt.Fprintf(a.out, "%s serves %s on %s\n", id, t.Spec.Model, strings.Join(devicesOf(t), ", "))
			return nil
		case stateFailed:
			return fmt.Errorf("tenant %s failed: %s", id, t.Reason)
		}
		done, total := loadProgress(t)
		meter.Show("loading "+string(id), done, total, 0)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func loadProgress(t actors.TenantStatus) (done, total int64) {
	for _, l := range t.Lanes {
		for _, s := range l.Slices {
			done += s.LoadedBytes
			total += s.WeightBytes
		}
	}
	return done, total
}

func (a *app) tenantShowCommand() *cobra.Command {
	return a.jsonFlag(a.clientFlags(&cobra.Command{Use: "show NAME", Short: "Show a tenant, its lanes and how its SLA is kept", Args: cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			t, err := c.Tenant(ctx, gmg.TenantID(args[0]))
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(t)
			}
			return a.printTenant(t)
		})}))
}

func (a *app) printTenant(t actors.TenantStatus) error {
	state := t.State
	if t.Reason != "" {
		state += ": " + t.Reason
	}
	rows := [][]string{
		{"tenant", string(t.Spec.ID)}, {"model", t.Spec.Model}, {"state", state},
		{"requests", fmt.Sprintf("%d running, %d waiting, %d in all", t.Running, t.Waiting, t.SLA.Requests)},
		{"tokens", fmt.Sprintf("%d of prompts, %d of answers", t.SLA.PromptTokens, t.SLA.CompletionTokens)},
		{"KV pages", fmt.Sprintf("%d of %d free", t.KVFree, t.KVTotal)},
		{"SLA", fmt.Sprintf("%d violations of %d (%.1f %%)", t.SLA.Violations, t.SLA.Requests, t.SLA.ViolationsPct)},
		{"TTFT", quantilesText(t.SLA.TTFTMs, t.SLA.TTFTLimitMs)}, {"TPOT", quantilesText(t.SLA.TPOTMs, t.SLA.TPOTLimitMs)},
		{"latency", quantilesText(t.SLA.LatencyMs, 0)},
	}
	for _, l := range t.Lanes {
		for i, s := range l.Slices {
			rows = append(rows, []string{fmt.Sprintf("%s/%d", l.ID, i), fmt.Sprintf("stages %s on %s, %s of weights, %s of KV",
				stagesText(s.Stages), s.Device, term.Bytes(s.WeightBytes), term.Bytes(s.KVBytes))})
		}
	}
	for _, r := range rows {
		if _, err := fmt.Fprintf(a.out, "%-10s  %s\n", r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

func quantilesText(q actors.Quantiles, limitMs float64) string {
	text := fmt.Sprintf("mean %s, p50 %s, p90 %s, p99 %s", term.Ms(q.Mean), term.Ms(q.P50), term.Ms(q.P90), term.Ms(q.P99))
	if limitMs > 0 {
		text += ", promised " + term.Ms(limitMs)
	}
	return text
}

func (a *app) tenantRemoveCommand() *cobra.Command {
	return a.clientFlags(&cobra.Command{Use: "remove NAME", Short: "Remove a tenant; its requests end", Args: cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if err := c.RemoveTenant(ctx, gmg.TenantID(args[0])); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s is removed\n", args[0])
			return nil
		})})
}
