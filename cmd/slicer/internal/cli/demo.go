package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/client"
	"slicescheduler/cmd/slicer/internal/demo"
	"slicescheduler/cmd/slicer/internal/node"
)

const (
	demoDrain = 5 * time.Second
	// demoPatience bounds the whole demo, so that it ends even where something hangs.
	demoPatience = 25 * time.Second
)

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	var http string
	cmd := &cobra.Command{Use: "demo", Short: "Watch three tenants share two devices, in one process and a few seconds", Args: cobra.NoArgs,
		Long: "Start a node with two devices of one core each, serve three tenants of the embedded models, one of them split by layers over both devices,\n" +
			"ask each some questions and stream the answers side by side. Ends by itself; the exit status tells whether every answer came.",
		RunE: run(func(ctx context.Context, _ []string) error { return a.demo(ctx, http, keep) })}
	cmd.Flags().BoolVar(&keep, "keep", false, "stay up afterwards, and say how to talk to the tenants")
	cmd.Flags().StringVar(&http, "http", "127.0.0.1:0", "`address` of the HTTP APIs; port 0 for any")
	return cmd
}

// demo starts the node, has the tenants talk, prints what was measured, and ends or stays.
func (a *app) demo(ctx context.Context, http string, keep bool) error {
	n, err := node.Start(ctx, node.Config{
		Name: "demo", Devices: demo.Devices(), Limits: demo.Limits(), HTTP: http, Version: buildVersion().Version, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	err = a.showDemo(ctx, n)
	if err == nil && keep {
		a.printTalk(n.HTTP())
		<-ctx.Done()
	}
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), demoDrain)
	defer cancel()
	return errors.Join(err, n.Close(draining))
}

func (a *app) showDemo(ctx context.Context, n *node.Node) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoPatience, fmt.Errorf("the demo took longer than %v", demoPatience))
	defer cancel()
	tenants := demo.Tenants()
	for _, t := range tenants {
		if err := submitAndWait(ctx, n, t.Spec); err != nil {
			return fmt.Errorf("tenant %s: %w", t.Spec.ID, err)
		}
	}
	totals := make([]demo.Totals, len(tenants))
	var first time.Duration
	var err error
	if a.out.Terminal {
		first, err = demo.Live(ctx, n, tenants, totals, a.start, a.out, a.in)
	} else {
		first, err = a.plainDemo(ctx, n, tenants, totals)
	}
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	fmt.Fprintln(a.out)
	return demo.PrintSummary(ctx, a.out, n, tenants, totals, first)
}

func (a *app) plainDemo(ctx context.Context, n *node.Node, tenants []demo.Tenant, totals []demo.Totals) (time.Duration, error) {
	columns, _ := a.out.Size()
	plain := demo.NewPlain(a.out, tenants, columns)
	show := func(u demo.Update) {
		if u.Done != nil {
			totals[u.Tenant].Add(*u.Done)
		}
		plain.Show(u)
	}
	return demo.Run(ctx, n, tenants, a.start, show, func(context.Context, int) error { return nil })
}

// printTalk says how to reach a node that stays up.
func (a *app) printTalk(http string) {
	server := ""
	if http != client.DefaultServer {
		server = " --server " + http
	}
	fmt.Fprint(a.out, strings.Join([]string{
		"", "The node stays up until Ctrl-C. Talk to it:", "",
		"  slicer chat" + server + " story 'Tell me a story about an owl and a bell.'",
		"  curl -s " + http + `/v1/chat/completions -H 'Content-Type: application/json' \`,
		`    -d '{"model": "guide", "messages": [{"role": "user", "content": "What is 3 + 4?"}]}'`,
		"  slicer devices" + server,
		"", "In a browser: " + http, "",
	}, "\n"))
}
