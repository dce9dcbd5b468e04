package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/term"
	"slicescheduler/model"
	"slicescheduler/model/hub"
)

// modelRow is a model as slicer models shows it.
type modelRow struct {
	model.Listing
	Family        string `json:"family,omitempty"`
	Parameters    int64  `json:"parameters,omitempty"`
	ContextTokens int    `json:"contextTokens,omitempty"`
	Chat          bool   `json:"chat"`            // it has a chat template
	Error         string `json:"error,omitempty"` // why it can't be served
}

// modelsFlag adds --models, whose default is where models are kept anyway.
func modelsFlag(cmd *cobra.Command, dir *string) *cobra.Command {
	cmd.Flags().StringVar(dir, "models", "", "`directory` of model files (default: slicer/models in the user's cache)")
	return cmd
}

// modelsDir returns the directory that was named, or the default.
func modelsDir(dir string) (string, error) {
	if dir != "" {
		return dir, nil
	}
	return model.DefaultDir()
}

func (a *app) modelsCommand() *cobra.Command {
	var dir string
	return modelsFlag(a.jsonFlag(&cobra.Command{Use: "models", Short: "List the embedded and the downloaded models", Args: cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			rows, err := listModels(dir)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.printJSON(rows)
			}
			var cells [][]string
			for _, r := range rows {
				cells = append(cells, r.cells())
			}
			return term.Table(a.out, []string{"MODEL", "FAMILY", "PARAMETERS", "SIZE", "CONTEXT", "CHAT", "WHERE"}, cells)
		})}), &dir)
}

func (r modelRow) cells() []string {
	where := r.Path
	if r.Embedded {
		where = "embedded"
	}
	if r.Error != "" {
		return []string{r.Name, "-", "-", term.Bytes(r.Bytes), "-", "-", r.Error}
	}
	chat := "yes"
	if !r.Chat {
		chat = "no"
	}
	return []string{r.Name, r.Family, term.Count(r.Parameters), term.Bytes(r.Bytes), fmt.Sprint(r.ContextTokens), chat, where}
}

// listModels opens every model for a look at what it is. One that can't be opened is listed with the reason.
func listModels(dir string) ([]modelRow, error) {
	dir, err := modelsDir(dir)
	if err != nil {
		return nil, err
	}
	library := model.NewLibrary(dir)
	items, err := library.List()
	if err != nil {
		return nil, err
	}
	rows := []modelRow{}
	for _, item := range items {
		row := modelRow{Listing: item}
		name := item.Path
		if item.Embedded {
			name = item.Name
		}
		m, release, err := library.Open(name)
		if err != nil {
			row.Error = err.Error()
			rows = append(rows, row)
			continue
		}
		row.Family, row.Parameters, row.ContextTokens, row.Chat = m.Graph.Family, m.Parameters, m.Graph.ContextTokens, m.Template != nil
		row.Bytes = m.FileBytes
		release()
		rows = append(rows, row)
	}
	return rows, nil
}

func (a *app) pullCommand() *cobra.Command {
	var dir string
	cmd := modelsFlag(a.jsonFlag(&cobra.Command{Use: "pull NAME", Short: "Fetch a model", Args: cobra.ExactArgs(1),
		Long: "Fetch a model from a Hugging Face hub (owner/repo, owner/repo:QUANT or owner/repo:FILE), from a URL (with #sha256=... to have it checked)\n" +
			"or from a path. A download that was cut short goes on where it stopped. HF_ENDPOINT names another hub, HF_TOKEN a token for it.",
		Example: "  slicer pull bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0\n  slicer pull ./my-model.gguf",
		RunE:    run(func(ctx context.Context, args []string) error { return a.pull(ctx, args[0], dir) })}), &dir)
	return cmd
}

func (a *app) pull(ctx context.Context, name, dir string) error {
	dir, err := modelsDir(dir)
	if err != nil {
		return err
	}
	config := hub.Config{Dir: dir}
	config.Endpoint, _ = a.lookup("HF_ENDPOINT")
	config.Token, _ = a.lookup("HF_TOKEN")
	meter := term.NewMeter(a.err, time.Now)
	file := ""
	config.Progress = func(p hub.Progress) {
		if p.File != file {
			file = p.File
			meter.Restart()
		}
		meter.Show(p.File, p.DoneBytes, p.TotalBytes, p.FromBytes)
	}
	config.Retry = func(err error, pause time.Duration) {
		meter.Clear()
		fmt.Fprintln(a.err, a.err.Dim(fmt.Sprintf("%v; again in %v", err, pause)))
	}
	puller, err := hub.New(config)
	if err != nil {
		return err
	}
	got, err := puller.Pull(ctx, name)
	meter.Clear()
	if errors.Is(err, hub.ErrName) {
		return &usageError{err}
	}
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.printJSON(got)
	}
	fmt.Fprintln(a.out, pullText(got))
	return nil
}

func pullText(got hub.Result) string {
	text := fmt.Sprintf("%s  %s", got.Path, term.Bytes(got.Bytes))
	switch {
	case got.Present:
		text += ", was there already"
	case got.Verified:
		text += ", checksum right"
	default:
		text += ", no checksum was known"
	}
	if got.Files > 1 {
		text += fmt.Sprintf(", %d files", got.Files)
	}
	return text
}
