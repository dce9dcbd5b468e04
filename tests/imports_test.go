package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "slicescheduler"

// apiTypes are the packages whose types stand in the signatures of actors.API; who calls it needs them.
var apiTypes = []string{"gmg", "model", "gpuworker/sampling"}

// mayImport is the table of rooms: what a folder's packages may import of this module beside themselves. "gpuworker" allows gpuworker/sampling too.
// A longer name that matches wins over a shorter one. cmd and tests import what they like.
var mayImport = map[string][]string{
	"gmg":           nil,
	"model":         {"gmg"},
	"batching":      {"gmg"},
	"whatif":        {"gmg", "batching"},
	"planner":       {"gmg", "batching", "whatif"},
	"workload":      {"gmg", "batching", "whatif", "planner"},
	"transfer":      {"gmg"},
	"gpuworker":     {"gmg", "model", "transfer"},
	"gpuworker/sim": {"gmg", "model", "transfer", "whatif", "gpuworker"},
	"cluster":       {"gmg"},
	"actors":        {"gmg", "model", "batching", "whatif", "planner", "workload", "transfer", "gpuworker", "cluster"},
	"server":        append([]string{"actors"}, apiTypes...),
}

// pkg is what go list says of a package. Imports leaves tests out.
type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	DepOnly    bool
	Standard   bool
}

// room returns the package's folder within the module.
func (p pkg) room() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

// packages lists all packages of the module.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	if len(list) < 10 {
		t.Fatalf("go list found %d packages; something is wrong with this test", len(list))
	}
	return list
}

// within says whether a package lies in a folder.
func within(room, folder string) bool { return room == folder || strings.HasPrefix(room, folder+"/") }

// rule returns the longest entry of the table that covers a package.
func rule(room string) (folder string, found bool) {
	for f := range mayImport {
		if within(room, f) && len(f) > len(folder) {
			folder, found = f, true
		}
	}
	return folder, found
}

// forbidden says whether the table forbids a package to import another of this module.
func forbidden(room, imported string) bool {
	folder, ruled := rule(room)
	if !ruled {
		return !within(room, "cmd") && !within(room, "tests")
	}
	if within(imported, folder) && !(folder == "gpuworker" && within(imported, "gpuworker/sim")) {
		return false
	}
	return !slices.ContainsFunc(mayImport[folder], func(f string) bool { return within(imported, f) })
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.Imports {
			if within(imported, module) && forbidden(p.room(), strings.TrimPrefix(imported, module+"/")) {
				t.Errorf("%s imports %s, which the table of rooms in ARCHITECTURE.md does not allow", p.ImportPath, imported)
			}
		}
	}
}

func TestTableForbids(t *testing.T) {
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{"gmg", "model", true}, {"model/gguf", "gmg", false}, {"model", "model/gguf", false}, {"whatif", "planner", true},
		{"gpuworker/sim", "whatif", false}, {"gpuworker/cpu", "whatif", true}, {"gpuworker", "gpuworker/sim", true}, {"server", "actors", false},
		{"server", "planner", true}, {"server", "gpuworker/cpu", true}, {"cmd/slicer", "server", false}, {"newroom", "gmg", true},
	} {
		if got := forbidden(c.from, c.to); got != c.want {
			t.Errorf("%s importing %s: forbidden %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// Pure packages may use the standard library only, and not what follows.
var (
	pureRooms       = []string{"gmg", "batching", "whatif", "planner"}
	impureImports   = []string{"os", "net", "syscall", "io/ioutil", "log", "log/slog", "crypto/rand", "embed", "plugin"}
	impureTime      = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	pureRandom      = []string{"New", "NewPCG", "NewSource", "NewChaCha8", "NewZipf", "Rand", "PCG", "Source", "ChaCha8", "Zipf"}
	randomLibraries = []string{"math/rand", "math/rand/v2"}
)

func TestPureRoomsImportOnlyPurePackages(t *testing.T) {
	for _, p := range packages(t) {
		if !slices.ContainsFunc(pureRooms, func(r string) bool { return within(p.room(), r) }) {
			continue
		}
		for _, imported := range p.Imports {
			if slices.ContainsFunc(impureImports, func(i string) bool { return within(imported, i) }) {
				t.Errorf("%s imports %s: this room is pure", p.ImportPath, imported)
			}
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
				t.Errorf("%s imports %s: pure rooms use the standard library alone", p.ImportPath, imported)
			}
		}
		for _, file := range p.GoFiles {
			for _, problem := range impurities(t, filepath.Join(p.Dir, file)) {
				t.Error(problem)
			}
		}
	}
}
