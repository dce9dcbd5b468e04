// Command summary runs go test and says at the end what passed, what failed and what was skipped, with the reasons.
//
//	summary run [-counts FILE] -- ARGS...   runs "go test -json ARGS..." and appends its counts to FILE
//	summary total FILE                      prints the sum of all counts as "N passed, N failed, N skipped"
//
// Both fail when a test failed or when no test ran at all.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errors.New("want run or total")
	}
	switch args[0] {
	case "run":
		return runTests(args[1:], stdout, stderr)
	case "total":
		if len(args) != 2 {
			return errors.New("total wants one file of counts")
		}
		return printTotal(args[1], stdout)
	}
	return fmt.Errorf("unknown command %q: want run or total", args[0])
}

// runTests runs go test once and reports. An exit status of go test that no event explains (a broken build, say) is a failure too.
func runTests(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	countsFile := flags.String("counts", "", "append the counts to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, flags.Args()...)...)
	cmd.Stderr = stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	t := newTally(stdout)
	readErr := t.read(events)
	waitErr := cmd.Wait()
	c := t.counts()
	if waitErr != nil && c.Failed == 0 {
		c.Failed = 1
	}
	t.report(c)
	if *countsFile != "" {
		if err := appendCounts(*countsFile, c); err != nil {
			return err
		}
	}
	if readErr != nil {
		return readErr
	}
	return c.verdict()
}

func appendCounts(path string, c counts) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, c)
	return errors.Join(err, f.Close())
}

// printTotal adds up the lines that appendCounts wrote.
func printTotal(path string, stdout io.Writer) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var sum counts
	for line := range strings.Lines(string(data)) {
		var c counts
		if _, err := fmt.Sscanf(line, countsFormat, &c.Passed, &c.Failed, &c.Skipped); err != nil {
			return fmt.Errorf("%s: %q: %w", path, strings.TrimSpace(line), err)
		}
		sum = sum.plus(c)
	}
	fmt.Fprintln(stdout, sum)
	return sum.verdict()
}
