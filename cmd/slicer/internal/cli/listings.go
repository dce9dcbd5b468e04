package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/client"
	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/gmg"
)

// listing is a command that fetches one kind of thing and prints it as a table or as JSON.
func listing[T any](a *app, use, short string, fetch func(*client.Client, context.Context) ([]T, error), header []string, row func(T) []string) *cobra.Command {
	return a.jsonFlag(a.clientFlags(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: run(func(ctx context.Context, _ []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		items, err := fetch(c, ctx)
		if err != nil {
			return err
		}
		if a.asJSON {
			return a.printJSON(items)
		}
		var rows [][]string
		for _, item := range items {
			rows = append(rows, row(item))
		}
		return term.Table(a.out, header, rows)
	})}))
}

func (a *app) nodesCommand() *cobra.Command {
	return listing(a, "nodes", "List the nodes", (*client.Client).Nodes, []string{"NODE", "STATE", "HTTP", "VERSION", "UP"}, func(n actors.NodeStatus) []string {
		return []string{string(n.ID), n.State, n.HTTP, n.Version, term.Age(time.Since(time.Unix(n.StartUnixS, 0)))}
	})
}

func (a *app) devicesCommand() *cobra.Command {
	header := []string{"DEVICE", "KIND", "MODEL", "CORES", "MEMORY", "WEIGHTS", "KV", "OTHER", "FREE", "BUSY", "STATE"}
	return listing(a, "devices", "List the devices and what their memory holds", (*client.Client).Devices, header, func(d actors.DeviceStatus) []string {
		state := "ok"
		if !d.Device.Healthy {
			state = "failed: " + d.Device.Reason
		}
		weights, kv := d.Held[gmg.MemWeights.String()], d.Held[gmg.MemKV.String()]
		other := d.Device.MemoryBytes - d.FreeBytes - weights - kv
		return []string{string(d.Device.ID), string(d.Device.Kind), d.Device.Model, coresText(d.Device.Cores), term.Bytes(d.Device.MemoryBytes),
			term.Bytes(weights), term.Bytes(kv), term.Bytes(other), term.Bytes(d.FreeBytes), fmt.Sprintf("%.0f %%", d.BusyPct), state}
	})
}

func coresText(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func (a *app) slicesCommand() *cobra.Command {
	header := []string{"LANE", "SLICE", "DEVICE", "STAGES", "WEIGHTS", "KV", "STATE", "STEPS", "BUSY"}
	return listing(a, "slices", "List which run of which tenant's operators is where", (*client.Client).Slices, header, func(s actors.SliceStatus) []string {
		return []string{string(s.Lane), fmt.Sprint(s.Index), string(s.Slice.Device), stagesText(s.Slice.Stages), term.Bytes(s.Slice.WeightBytes),
			term.Bytes(s.Slice.KVBytes), s.State, fmt.Sprint(s.Steps), (time.Duration(s.BusyNs).Round(time.Millisecond)).String()}
	})
}

// stagesText writes a run of stages as people count: first to last.
func stagesText(r gmg.Range) string {
	if r.Len() == 1 {
		return fmt.Sprint(r.From)
	}
	return fmt.Sprintf("%d-%d", r.From, r.To-1)
}
