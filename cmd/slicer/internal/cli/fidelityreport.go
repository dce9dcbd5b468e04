package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"slicescheduler/workload/fidelity"
)

// report is a directory of pages and traces.
type report struct {
	dir  string
	used map[string]bool
}

// newReport makes the directory; an empty name wants no report, which is nil.
func newReport(dir string) (*report, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("directory for the report: %w", err)
	}
	return &report{dir, map[string]bool{}}, nil
}

// base is the files' name without ending; runs of one name in different directories are numbered.
func (r *report) base(run string) string {
	name := run
	for n := 2; r.used[name]; n++ {
		name = fmt.Sprintf("%s-%d", run, n)
	}
	r.used[name] = true
	return filepath.Join(r.dir, name)
}

// write writes a run's page and trace and returns their paths.
func (r *report) write(dir, profiles string, res fidelity.Result) ([]string, error) {
	recorded, err := fidelity.Load(dir)
	if err != nil {
		return nil, err
	}
	base := r.base(recorded.Name)
	page, trace := base+".html", base+".trace.json"
	if err := writeFile(page, func(w io.Writer) error { return fidelity.WritePage(w, recorded, res) }); err != nil {
		return nil, err
	}
	if err := writeFile(trace, func(w io.Writer) error { return fidelity.WriteRequestTrace(dir, profiles, w) }); err != nil {
		return nil, err
	}
	return []string{page, trace}, nil
}

func writeFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}
