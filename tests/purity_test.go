package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// impurities finds goroutines, clocks and global randomness in a source file.
func impurities(t *testing.T, file string) []string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := importNames(f)
	var found []string
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, fmt.Sprintf("%s: starts a goroutine in a pure room", fset.Position(n.Pos())))
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			if !ok {
				return true
			}
			if imported := names[pkg.Name]; impureUse(imported, n.Sel.Name) {
				found = append(found, fmt.Sprintf("%s: uses %s.%s in a pure room; take time and randomness as arguments", fset.Position(n.Pos()), imported, n.Sel.Name))
			}
		}
		return true
	})
	return found
}

// impureUse says whether a name of a package reads a clock or the process's random numbers.
func impureUse(imported, name string) bool {
	switch {
	case imported == "time":
		return slices.Contains(impureTime, name)
	case slices.Contains(randomLibraries, imported):
		return !slices.Contains(pureRandom, name)
	}
	return false
}

// importNames maps the names by which a file knows its imports to their paths.
func importNames(f *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
	}
	return names
}

func TestImpuritiesAreFound(t *testing.T) {
	source := `package p
import ("time"; r "math/rand/v2"; "math/rand")
func f() { go f(); _ = time.Now(); _ = time.Second; _ = r.IntN(3); _ = rand.New(nil) }`
	file := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := impurities(t, file); len(got) != 3 {
		t.Errorf("found %q, want the goroutine, the clock and the global random number", got)
	}
}
