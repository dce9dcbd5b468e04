package report

import (
	"encoding/json"
	"io"
)

// File is one of the files that make up a report.
type File struct {
	Name  string // relative to the others
	What  string
	Write func(io.Writer) error
}

// Files returns what is to lie in a report's folder: the page, what went into it as JSON, the summary, and a CSV file for each table. The page links to
// them by these names, so whoever writes the page writes all of them.
func Files(r *Report) []File {
	files := []File{
		{"report.html", "this page", func(w io.Writer) error { return WriteHTML(w, r) }},
		{"report.json", "all of it as JSON", func(w io.Writer) error { return json.NewEncoder(w).Encode(r) }},
		{"summary.json", "scenario, policy and figures as JSON", func(w io.Writer) error { return writeSummary(w, r) }},
	}
	for _, t := range Tables(r) {
		files = append(files, File{t.Name + ".csv", t.Title, func(w io.Writer) error { return WriteCSV(w, t) }})
	}
	return files
}

// Summary returns the figures by scenario and policy.
func Summary(r *Report) map[string]map[string]Figures {
	out := map[string]map[string]Figures{}
	for _, s := range r.Scenarios {
		out[s.Name] = map[string]Figures{}
		for _, res := range s.Results {
			out[s.Name][res.Policy] = res.Figures
		}
	}
	return out
}

func writeSummary(w io.Writer, r *Report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(Summary(r))
}
