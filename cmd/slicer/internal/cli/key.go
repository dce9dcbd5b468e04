package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/gmg"
)

func (a *app) keyCommand() *cobra.Command {
	add := a.clientFlags(&cobra.Command{Use: "add TENANT [NAME]", Short: "Make an API key of a tenant and print it, this once", Args: cobra.RangeArgs(1, 2),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.addKey(ctx, gmg.TenantID(args[0]), keyName(args[1:]))
		})})
	list := a.jsonFlag(a.clientFlags(&cobra.Command{Use: "list TENANT", Short: "List a tenant's API keys", Args: cobra.ExactArgs(1),
		RunE: run(func(ctx context.Context, args []string) error { return a.listKeys(ctx, gmg.TenantID(args[0])) })}))
	remove := a.clientFlags(&cobra.Command{Use: "remove TENANT NAME", Short: "Remove an API key", Args: cobra.ExactArgs(2),
		RunE: run(func(ctx context.Context, args []string) error {
			return a.removeKey(ctx, gmg.TenantID(args[0]), args[1])
		})})
	return group("key", "Add, list and remove tenants' API keys", add, list, remove)
}

// keyName is the name that was given, or one for a tenant's only key.
func keyName(args []string) string {
	if len(args) == 0 {
		return "default"
	}
	return args[0]
}

func (a *app) addKey(ctx context.Context, t gmg.TenantID, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	key, err := c.AddKey(ctx, t, name)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.err, "key %q of %s; keep it, it is not shown again:\n", name, t)
	_, err = fmt.Fprintln(a.out, key)
	return err
}

func (a *app) listKeys(ctx context.Context, t gmg.TenantID) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	keys, err := c.Keys(ctx, t)
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(keys)
	}
	var rows [][]string
	for _, k := range keys {
		rows = append(rows, []string{k.Name, k.Prefix + "...", term.Age(time.Since(time.Unix(k.CreatedUnixS, 0)))})
	}
	return term.Table(a.out, []string{"KEY", "BEGINS", "AGE"}, rows)
}

func (a *app) removeKey(ctx context.Context, t gmg.TenantID, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if err := c.RemoveKey(ctx, t, name); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "key %q of %s is removed\n", name, t)
	return nil
}
