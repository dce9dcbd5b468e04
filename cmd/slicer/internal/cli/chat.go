package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"slicescheduler/cmd/slicer/internal/client"
	"slicescheduler/cmd/slicer/internal/term"
)

// maxPromptBytes bounds what is read as a prompt.
const maxPromptBytes = 4 << 20

// chatFlags are the flags of slicer chat; those left out take the node's defaults.
type chatFlags struct {
	system      string
	temperature float64
	seed        int64
	maxTokens   int
}

func (a *app) chatCommand() *cobra.Command {
	var f chatFlags
	cmd := a.clientFlags(&cobra.Command{Use: "chat TENANT [PROMPT]", Short: "Talk to a tenant", Args: cobra.RangeArgs(1, 2),
		Long: "Talk to a tenant. With a prompt, or with one on standard input, answer it and end. Without, read lines: Ctrl-C stops an answer, Ctrl-D ends.",
		Example: "  slicer chat alice 'Tell me a story about a fox and a lantern.'\n" +
			"  slicer chat alice < question.txt"})
	flags := cmd.Flags()
	flags.StringVar(&f.system, "system", "", "system `prompt`")
	flags.Float64Var(&f.temperature, "temperature", 1, "0 for the likeliest token always")
	flags.Int64Var(&f.seed, "seed", 0, "the same seed gives the same answer")
	flags.IntVar(&f.maxTokens, "max-tokens", 0, "tokens of an answer at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.validate(flags.Changed); err != nil {
			return err
		}
		r := client.ChatRequest{Model: args[0]}
		if f.system != "" {
			r.Messages = append(r.Messages, client.Message{Role: "system", Content: f.system})
		}
		if flags.Changed("temperature") {
			r.Temperature = &f.temperature
		}
		if flags.Changed("seed") {
			r.Seed = &f.seed
		}
		if flags.Changed("max-tokens") {
			r.MaxTokens = &f.maxTokens
		}
		return asFailure(a.chat(cmd.Context(), r, args[1:]))
	}
	return cmd
}

// validate refuses what no node takes; the upper ends are the node's to know.
func (f *chatFlags) validate(given func(string) bool) error {
	switch {
	case !(f.temperature >= 0) || math.IsInf(f.temperature, 0): // NaN is not
		return usagef("--temperature %v is no number from 0 up", f.temperature)
	case given("max-tokens") && f.maxTokens < 1:
		return usagef("--max-tokens %d is not at least 1", f.maxTokens)
	}
	return nil
}

func (a *app) chat(ctx context.Context, r client.ChatRequest, prompt []string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	switch {
	case len(prompt) > 0:
		return a.ask(ctx, c, &r, prompt[0])
	case term.IsTerminal(a.in):
		return a.talk(ctx, c, r)
	}
	data, err := io.ReadAll(io.LimitReader(a.in, maxPromptBytes+1))
	if err != nil {
		return err
	}
	text := strings.TrimRight(string(data), "\r\n")
	if len(data) > maxPromptBytes || text == "" {
		return usagef("standard input has %d bytes, a prompt has 1 to %d", len(data), maxPromptBytes)
	}
	return a.ask(ctx, c, &r, text)
}

// ask streams one answer and adds both sides to the conversation. An interrupt ends the answer alone.
func (a *app) ask(ctx context.Context, c *client.Client, r *client.ChatRequest, prompt string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	r.Messages = append(r.Messages, client.Message{Role: "user", Content: prompt})
	result, err := c.Chat(ctx, *r, func(text string) { fmt.Fprint(a.out, text) })
	if result.Text != "" {
		fmt.Fprintln(a.out)
	}
	if err != nil && result.Text == "" {
		r.Messages = r.Messages[:len(r.Messages)-1]
		return err
	}
	r.Messages = append(r.Messages, client.Message{Role: "assistant", Content: result.Text})
	if err == nil && result.FinishReason == "length" {
		fmt.Fprintln(a.err, a.err.Dim("(cut off at the limit of tokens)"))
	}
	return err
}

// talk reads prompts line by line until the end of input. A line that fails is told and forgotten.
func (a *app) talk(ctx context.Context, c *client.Client, r client.ChatRequest) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGHUP) // so that the terminal is left as it was
	defer stop()
	fmt.Fprintln(a.err, a.err.Dim("Ctrl-C stops an answer, Ctrl-D ends."))
	lines := term.NewLines(a.in, a.out, "> ")
	for {
		line, err := lines.Next(ctx)
		switch {
		case errors.Is(err, term.ErrDropped):
			fmt.Fprintln(a.err, a.err.Dim("(Ctrl-D ends)"))
			continue
		case errors.Is(err, io.EOF):
			fmt.Fprintln(a.out)
			return nil
		case err != nil:
			fmt.Fprintln(a.out)
			return err
		}
		prompt := strings.TrimSpace(line)
		if prompt == "" {
			continue
		}
		err = a.ask(ctx, c, &r, prompt)
		switch {
		case ctx.Err() != nil, errors.Is(err, client.ErrNoNode):
			return err
		case errors.Is(err, context.Canceled):
			fmt.Fprintln(a.err, a.err.Dim("(stopped)"))
		case err != nil:
			fmt.Fprintln(a.err, err)
		}
	}
}
