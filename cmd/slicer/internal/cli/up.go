package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/actors"
	"slicescheduler/cmd/slicer/internal/devspec"
	"slicescheduler/cmd/slicer/internal/node"
	"slicescheduler/cmd/slicer/internal/settings"
	"slicescheduler/gmg"
)

const (
	defaultHTTP  = "127.0.0.1:7070"
	defaultDrain = 30 * time.Second
)

// upFlags are the flags of slicer up.
type upFlags struct {
	devices, http, data, models, name, adminKey string
	readyFile, logLevel, logFormat              string
	tenants                                     []string
	drain                                       time.Duration
}

func (a *app) upCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{Use: "up", Short: "Start a node", Args: cobra.NoArgs,
		Long: "Start a node and serve until SIGTERM or SIGINT, upon which running requests may finish for as long as --drain says; a second signal ends it at once.",
		Example: "  slicer up --tenant alice=tiny-story\n" +
			"  slicer up --devices 'cpu:1,mem=4GiB;cpu:1' --http 127.0.0.1:0",
		RunE: run(func(ctx context.Context, _ []string) error { return a.up(ctx, f) })}
	flags := cmd.Flags()
	flags.StringVar(&f.devices, "devices", "cpu", "`devices`: cpu[:CORES][*COUNT][,mem=SIZE] or sim:MODEL[*COUNT][,mem=SIZE], separated by semicolons")
	flags.StringVar(&f.http, "http", defaultHTTP, "`address` of the HTTP APIs; port 0 for any")
	flags.StringVar(&f.data, "data", "", "`directory` for tenants and keys (default: slicer in the user's data directory)")
	flags.StringVar(&f.name, "name", "", "`name` of the node (default: the host's)")
	flags.StringVar(&f.adminKey, "admin-key", "", "`key` of the admin API; without one only this machine may use it")
	flags.StringArrayVar(&f.tenants, "tenant", nil, "`NAME=MODEL` to serve from the start; may be repeated")
	flags.StringVar(&f.readyFile, "ready-file", "", "`file` to write the addresses to, as JSON, once the node is ready")
	flags.DurationVar(&f.drain, "drain", defaultDrain, "how long running requests may go on after a signal")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	if err := settings.SetEnvName(flags, "data", "SLICER_DATA_DIR"); err != nil {
		panic(err) // the flag is defined above
	}
	return modelsFlag(cmd, &f.models)
}

// up runs a node until ctx ends.
func (a *app) up(ctx context.Context, f upFlags) error {
	config, err := a.nodeConfig(f)
	if err != nil {
		return err
	}
	specs, err := tenantSpecs(f.tenants)
	if err != nil {
		return err
	}
	n, err := node.Start(ctx, config)
	if errors.Is(err, node.ErrOpenBind) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	config.Logger.Info("node started", "name", config.Name, "http", n.HTTP(), "data", config.DataDir, "models", config.ModelsDir)
	err = a.serve(ctx, n, config, specs, f)
	draining, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.drain)
	defer cancel()
	config.Logger.Info("draining", "atMost", f.drain)
	closeErr := n.Close(draining)
	if errors.Is(closeErr, context.DeadlineExceeded) {
		config.Logger.Warn("requests were cut off at the end of the time to drain", "drain", f.drain)
		closeErr = nil
	}
	return errors.Join(err, closeErr)
}

// serve brings the first tenants up, says that the node is ready, and waits for the end.
func (a *app) serve(ctx context.Context, n *node.Node, config node.Config, specs []gmg.TenantSpec, f upFlags) error {
	for _, s := range specs {
		if err := submitAndWait(ctx, n, s); err != nil {
			return ignoreEnd(ctx, err)
		}
	}
	if f.readyFile != "" {
		if err := writeReadyFile(f.readyFile, string(config.Name), n.HTTP()); err != nil {
			return err
		}
		defer os.Remove(f.readyFile)
	}
	fmt.Fprintf(a.out, "%s is ready: OpenAI API at %s/v1, page and admin API at %s\n", config.Name, n.HTTP(), n.HTTP())
	select {
	case <-ctx.Done():
		return nil
	case err := <-n.Served():
		return fmt.Errorf("HTTP server ended: %w", err)
	}
}

// ignoreEnd drops an error that only says that the node is to stop.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// submitAndWait makes a tenant and waits until it serves.
func submitAndWait(ctx context.Context, api actors.API, s gmg.TenantSpec) error {
	if err := api.SubmitTenant(ctx, s); err != nil {
		return err
	}
	ticker := time.NewTicker(pollPeriod / 10)
	defer ticker.Stop()
	for {
		t, err := api.Tenant(ctx, s.ID)
		switch {
		case err != nil:
			return err
		case t.State == stateReady:
			return nil
		case t.State == stateFailed:
			return fmt.Errorf("tenant %s failed: %s", s.ID, t.Reason)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nodeConfig turns flags into a node's configuration.
func (a *app) nodeConfig(f upFlags) (node.Config, error) {
	devices, err := devspec.Parse(f.devices)
	if err != nil {
		return node.Config{}, &usageError{err}
	}
	logger, err := newLogger(a.err, f.logLevel, f.logFormat)
	if err != nil {
		return node.Config{}, err
	}
	if f.drain < 0 {
		return node.Config{}, usagef("--drain %v is negative", f.drain)
	}
	c := node.Config{Name: gmg.NodeID(f.name), Devices: devices, HTTP: f.http, DataDir: f.data, AdminKey: f.adminKey, Version: buildVersion().Version, Logger: logger}
	if c.ModelsDir, err = modelsDir(f.models); err != nil {
		return node.Config{}, err
	}
	if c.DataDir == "" {
		if c.DataDir, err = a.defaultDataDir(); err != nil {
			return node.Config{}, err
		}
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return node.Config{}, fmt.Errorf("the host has no name, give one with --name: %w", err)
		}
		c.Name = gmg.NodeID(host)
	}
	if err := c.Validate(); err != nil {
		return node.Config{}, &usageError{err}
	}
	return c, nil
}

// defaultDataDir is $XDG_DATA_HOME/slicer, else where programs keep data on this system.
func (a *app) defaultDataDir() (string, error) {
	if dir, _ := a.lookup("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "slicer"), nil
	}
	if dir, _ := a.lookup("LocalAppData"); dir != "" && runtime.GOOS == "windows" {
		return filepath.Join(dir, "slicer"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for data, give one with --data: %w", err)
	}
	return filepath.Join(home, ".local", "share", "slicer"), nil
}

// tenantSpecs reads NAME=MODEL pairs.
func tenantSpecs(pairs []string) ([]gmg.TenantSpec, error) {
	var specs []gmg.TenantSpec
	for _, p := range pairs {
		name, model, found := strings.Cut(p, "=")
		s := gmg.TenantSpec{ID: gmg.TenantID(name), Model: model}
		if !found {
			return nil, usagef("--tenant %q: write NAME=MODEL, as in alice=tiny-story", p)
		}
		if err := s.Validate(); err != nil {
			return nil, usagef("--tenant %q: %w", p, err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level %q: write debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, usagef("--log-format %q: write text or json", format)
}

// writeReadyFile tells other programs the addresses; whoever sees the file sees all of it. join stays empty while nodes do not form clusters.
func writeReadyFile(path, name, http string) error {
	data, err := json.Marshal(struct {
		Name string `json:"name"`
		HTTP string `json:"http"`
		Join string `json:"join"`
	}{Name: name, HTTP: http})
	if err != nil {
		return err
	}
	part := path + ".part"
	if err := os.WriteFile(part, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	if err := os.Rename(part, path); err != nil {
		return fmt.Errorf("ready file: %w", errors.Join(err, os.Remove(part)))
	}
	return nil
}
