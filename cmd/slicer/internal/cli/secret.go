package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"slicescheduler/cluster/secret"
)

// secretSteps are the steps of a rotation, as people type them.
var secretSteps = map[string]func(secret.Keys) (secret.Rotation, error){
	"add":    func(k secret.Keys) (secret.Rotation, error) { return k.Add(secret.New()) },
	"use":    secret.Keys.Use,
	"remove": secret.Keys.Remove,
}

// secretNext says what to do after a step.
var secretNext = map[secret.Phase]string{
	secret.PhaseAdded:   "bring the file to every node; when all have logged that their secrets changed: slicer secret rotate use %s",
	secret.PhaseUsed:    "bring the file to every node; when all have logged that their secrets changed: slicer secret rotate remove %s",
	secret.PhaseRemoved: "bring the file to every node; the old secret opens nothing any more",
}

func (a *app) secretCommand() *cobra.Command {
	create := &cobra.Command{Use: "new [FILE]", Short: "Make a cluster's secret, in a file that only you may read or on standard output", Args: cobra.MaximumNArgs(1),
		Long: "Make a cluster's secret. Whoever has it is a member: the key of the gossip and every node's certificate follow from it. Give each node the same file: slicer up --secret-file FILE.",
		RunE: run(func(_ context.Context, args []string) error { return a.newSecret(args) })}
	show := a.jsonFlag(&cobra.Command{Use: "show FILE", Short: "Show fingerprints of the secrets in a file, never the secrets", Args: cobra.ExactArgs(1),
		RunE: run(func(_ context.Context, args []string) error { return a.showSecret(args[0]) })})
	rotate := &cobra.Command{Use: "rotate {add|use|remove} FILE", Short: "Take one step of changing a secret while the cluster runs", Args: cobra.ExactArgs(2),
		Long: "Take one step of changing a secret while the cluster runs: add writes a second secret that is accepted, use makes it the one in use, remove drops the old one. " +
			"Bring the file to every node after each step; nodes read it again by themselves, without a restart.",
		RunE: run(func(_ context.Context, args []string) error { return a.rotateSecret(args[0], args[1]) })}
	return group("secret", "Make, show and change the secret of a cluster", create, show, rotate)
}

func (a *app) newSecret(args []string) error {
	s := secret.New()
	if len(args) == 0 {
		_, err := fmt.Fprintln(a.out, s.Reveal())
		return err
	}
	err := secret.WriteFile(args[0], secret.Keys{s}, true)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: a cluster that uses it would be locked out; to change its secret: slicer secret rotate add %s", args[0], args[0])
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "%s in %s; give every node the file: slicer up --secret-file %s\n", s, args[0], args[0])
	return nil
}

// secretInfo is one secret of a file without giving it away.
type secretInfo struct {
	Fingerprint string `json:"fingerprint"`
	Use         string `json:"use"` // in use, accepted
}

func (a *app) readSecrets(path string) (secret.Keys, error) {
	keys, exposed, err := secret.ReadFile(path)
	if err == nil && exposed {
		fmt.Fprintf(a.err, "slicer: others may read %s: chmod 600 %s\n", path, path)
	}
	return keys, err
}

func (a *app) showSecret(path string) error {
	keys, err := a.readSecrets(path)
	if err != nil {
		return err
	}
	var list []secretInfo
	for i, k := range keys {
		list = append(list, secretInfo{k.Fingerprint(), []string{"in use", "accepted"}[i]})
	}
	if a.asJSON {
		return a.printJSON(list)
	}
	for _, s := range list {
		fmt.Fprintf(a.out, "%s  %s\n", s.Fingerprint, s.Use)
	}
	return nil
}

func (a *app) rotateSecret(step, path string) error {
	take, known := secretSteps[step]
	if !known {
		return usagef("step %q: write add, use or remove", step)
	}
	keys, err := a.readSecrets(path)
	if err != nil {
		return err
	}
	r, err := take(keys)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := secret.WriteFile(path, r.Keys, false); err != nil {
		return err
	}
	fmt.Fprintf(a.out, secretNext[r.Phase]+"\n", path)
	return nil
}
