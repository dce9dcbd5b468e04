// Package cli is the command line: one file for each command or family of commands.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/client"
	"slicescheduler/cmd/slicer/internal/settings"
	"slicescheduler/cmd/slicer/internal/term"
)

// Exit statuses.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Streams are what a command reads and writes, and its environment.
type Streams struct {
	In     io.Reader
	Out    io.Writer
	Err    io.Writer
	Lookup func(string) (string, bool) // environment
	Start  time.Time                   // of the process
}

// StandardStreams are those of this process, which began at start.
func StandardStreams(start time.Time) Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Lookup: os.LookupEnv, Start: start}
}

// app is what all commands share.
type app struct {
	in       io.Reader
	out, err term.Stream
	lookup   func(string) (string, bool)
	start    time.Time

	config string
	server string
	apiKey string
	asJSON bool
}

// usageError is a command that was called wrongly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// failure is an error of a command that was called rightly. What cobra itself reports is none, hence wrong usage.
type failure struct{ err error }

func (e *failure) Error() string { return e.err.Error() }
func (e *failure) Unwrap() error { return e.err }

// Run runs a command line (without the program's name) and returns the exit status.
func Run(ctx context.Context, args []string, s Streams) int {
	getenv := func(name string) string { v, _ := s.Lookup(name); return v }
	a := &app{in: s.In, out: term.Of(s.Out, getenv), err: term.Of(s.Err, getenv), lookup: s.Lookup, start: s.Start}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	cmd, err := root.ExecuteContextC(ctx)
	var failed *failure
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &failed) && errors.Is(err, context.Canceled):
		fmt.Fprintln(s.Err, "slicer: interrupted")
		return exitInterrupted
	case errors.As(err, &usage) || !errors.As(err, &failed):
		fmt.Fprintf(s.Err, "slicer: %v\nsee: %s --help\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(s.Err, "slicer: %v\n", err)
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "slicer",
		Short: "Serve many tenants' language models on shared accelerators",
		Long: "slicer serves many tenants' language models on shared accelerators and schedules them by operators, not by containers.\n\n" +
			"Every flag is also read from the environment (SLICER_ and its name: --log-level is SLICER_LOG_LEVEL; --data is SLICER_DATA_DIR)\n" +
			"and from the YAML file that --config names, where flags of one command may stand under its name.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.applySettings(cmd) },
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "YAML `file` of settings")
	root.AddCommand(a.demoCommand(), a.upCommand(), a.tenantCommand(), a.chatCommand(), a.modelsCommand(), a.pullCommand(),
		a.devicesCommand(), a.slicesCommand(), a.nodesCommand(), a.keyCommand(), a.secretCommand(), a.whatifCommand(), a.fidelityCommand(), a.replayCommand(), a.sizeCommand(), a.versionCommand())
	return root
}

// applySettings gives flags their values from environment and file. The file is found first, for the others may stand in it.
func (a *app) applySettings(cmd *cobra.Command) error {
	if a.config == "" {
		a.config, _ = a.lookup("SLICER_CONFIG")
	}
	file, err := settings.Read(a.config)
	if err != nil {
		return err
	}
	root := cmd.Root()
	path := cmd.CommandPath()
	if path != root.Name() {
		path = path[len(root.Name())+1:]
	}
	return file.Apply(path, cmd.Flags(), a.lookup, func(name string) bool { return hasFlag(root, name) },
		func(name string) bool { return hasCommand(root, "", name) })
}

// hasFlag says whether any command has a flag.
func hasFlag(cmd *cobra.Command, name string) bool {
	if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
		return true
	}
	for _, sub := range cmd.Commands() {
		if hasFlag(sub, name) {
			return true
		}
	}
	return false
}

func hasCommand(cmd *cobra.Command, prefix, path string) bool {
	for _, sub := range cmd.Commands() {
		name := prefix + sub.Name()
		if name == path || hasCommand(sub, name+" ", path) {
			return true
		}
	}
	return false
}

// run turns a function into a command's body: its context ends at the first interrupt, after which the next one kills.
func run(f func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		defer context.AfterFunc(ctx, stop)()
		return asFailure(f(ctx, args))
	}
}

func asFailure(err error) error {
	var usage *usageError
	if err == nil || errors.As(err, &usage) {
		return err
	}
	return &failure{err}
}

// group makes a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return usagef("%s wants to know what to do", cmd.CommandPath())
	}}
	cmd.AddCommand(commands...)
	return cmd
}

// clientFlags adds the flags of commands that talk to a node.
func (a *app) clientFlags(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&a.server, "server", client.DefaultServer, "`URL` of the node to talk to")
	cmd.Flags().StringVar(&a.apiKey, "api-key", "", "API `key`")
	return cmd
}

func (a *app) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) client() (*client.Client, error) {
	c, err := client.New(a.server, a.apiKey)
	if err != nil {
		return nil, &usageError{err}
	}
	return c, nil
}

// printJSON writes a value with indentation.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
