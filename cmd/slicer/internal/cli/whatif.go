package cli

import (
	"context"
	_ "embed" // the example
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"slicescheduler/workload/describe"
)

//go:embed example-world.yaml
var exampleWorld string

// whatifCommand asks about actions without taking them, over a cluster that a file describes.
func (a *app) whatifCommand() *cobra.Command {
	var world, profiles string
	var example bool
	cmd := a.jsonFlag(&cobra.Command{
		Use:   "whatif [ACTION...]",
		Short: "Ask what actions would bring, without taking them",
		Long: "Simulate a described cluster to its horizon, once as it is and once with the actions, and print both forecasts.\n\n" +
			actionForms() +
			"\nThe cluster is a YAML or JSON file: devices, links, tenants with lanes, running sequences and requests to come. --example prints one.",
		Example: "  slicer whatif --example > world.yaml\n  slicer whatif --world world.yaml replicate:chat@gpu1",
	})
	cmd.RunE = run(func(_ context.Context, args []string) error {
		if example {
			_, err := fmt.Fprint(a.out, exampleWorld)
			return err
		}
		return a.whatif(world, profiles, args)
	})
	cmd.Flags().StringVar(&world, "world", "", "`file` that describes the cluster, - for standard input")
	cmd.Flags().StringVar(&profiles, "profiles", "", "`directory` of measured cost tables; without it operators cost what their FLOPs and bytes take")
	cmd.Flags().BoolVar(&example, "example", false, "print an example of a described cluster")
	return cmd
}

// actionForms lists how actions are typed, one a line.
func actionForms() string {
	var out strings.Builder
	for _, f := range describe.ActionForms() {
		fmt.Fprintf(&out, "  %-44s %s\n", f.Form, f.Means)
	}
	return out.String()
}

func (a *app) whatif(world, profiles string, actions []string) error {
	w, err := a.readWorld(world)
	if err != nil {
		return err
	}
	for _, text := range actions {
		action, err := describe.ParseAction(text)
		if err != nil {
			return &usageError{err}
		}
		w.Actions = append(w.Actions, action)
	}
	if len(w.Actions) == 0 {
		return usagef("no action was given, neither here nor in %s; one is replicate:TENANT@DEVICE", world)
	}
	outcome, err := describe.WhatIf(w, profiles)
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(outcome)
	}
	return outcome.WriteText(a.out)
}

func (a *app) readWorld(path string) (*describe.World, error) {
	var in io.Reader = a.in
	switch path {
	case "":
		return nil, usagef("name the cluster's description with --world FILE (- for standard input); --example prints one")
	case "-":
	default:
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("description of the cluster: %w", err)
		}
		defer f.Close()
		in = f
	}
	w, err := describe.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}
