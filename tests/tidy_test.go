// Package tests holds what looks at the repository as a whole: its rules of style, its imports, its README, and the program from outside.
package tests

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Limits of size.
const (
	maxFileLines     = 700
	maxFunctionLines = 80
)

// What must not stand in any text file. The patterns are put together so that they don't find themselves.
var banned = []struct {
	what    string
	pattern *regexp.Regexp
}{
	{"a note of unfinished work", regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)},
	{"a path of one machine", regexp.MustCompile(`(^|[\s"'=(` + "`" + `])/(ro` + `ot|ho` + `me|wo` + `rk)/\w`)},
}

// plainMethods implement interfaces that every reader knows, so they need no words of their own.
var plainMethods = []string{"Error", "Is", "As", "Unwrap", "String", "Len", "Less", "Swap", "Push", "Pop", "Write", "Read", "Close", "ServeHTTP",
	"MarshalText", "UnmarshalText", "MarshalJSON", "UnmarshalJSON"}

// textFiles calls f for every text file under version control's eye.
func textFiles(t *testing.T, f func(path string, data []byte)) {
	t.Helper()
	kinds := []string{".go", ".md", ".s", ".sh", ".yml", ".yaml", ".proto", ".mod"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == ".git" || name == "testdata" || path == "../bin" || path == "../shared" {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains(kinds, filepath.Ext(name)) && name != "Makefile" && path != "../.ci/run" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err == nil {
			f(filepath.ToSlash(path), data)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func generated(data []byte) bool {
	head, _, _ := bytes.Cut(data, []byte("\npackage "))
	return bytes.Contains(head, []byte("Code generated ")) && bytes.Contains(head, []byte("DO NOT EDIT"))
}

func TestTextIsTidy(t *testing.T) {
	textFiles(t, func(path string, data []byte) {
		for i, line := range strings.Split(string(data), "\n") {
			for _, b := range banned {
				if b.pattern.MatchString(line) {
					t.Errorf("%s:%d: holds %s: %s", path, i+1, b.what, strings.TrimSpace(line))
				}
			}
		}
		if lines := bytes.Count(data, []byte("\n")); lines > maxFileLines && !generated(data) && filepath.Ext(path) == ".go" {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by subject", path, lines, maxFileLines)
		}
	})
}

func TestCodeIsTidy(t *testing.T) {
	textFiles(t, func(path string, data []byte) {
		if filepath.Ext(path) != ".go" || generated(data) {
			return
		}
		for _, problem := range untidy(t, path, data) {
			t.Error(problem)
		}
	})
}

// untidy finds long functions, sleeping tests and undocumented exported names in a source file.
func untidy(t *testing.T, path string, data []byte) []string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	isTest := strings.HasSuffix(path, "_test.go")
	var found []string
	report := func(at token.Pos, format string, args ...any) {
		found = append(found, fmt.Sprintf("%s: ", fset.Position(at))+fmt.Sprintf(format, args...))
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			if lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; lines > maxFunctionLines {
				report(fn.Pos(), "%s has %d lines, at most %d are allowed", fn.Name.Name, lines, maxFunctionLines)
			}
		}
	}
	if isTest && !fakesClocks(f) {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
					report(s.Pos(), "sleeps in a test: wait for the event, or use testing/synctest")
				}
			}
			return true
		})
	}
	if isTest {
		return found
	}
	for _, u := range undocumented(fset, f) {
		report(u.at, "%s is exported and has no documentation", u.name)
	}
	return found
}

// fakesClocks says whether a test file runs in bubbles of testing/synctest, where sleeping takes no time.
func fakesClocks(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing/synctest"` })
}

type undocumentedName struct {
	name string
	at   token.Pos
}

// undocumented lists a file's exported declarations without a comment. Declarations on adjacent lines share the comment above the first.
func undocumented(fset *token.FileSet, f *ast.File) []undocumentedName {
	if f.Name.Name == "main" {
		return nil
	}
	var list []undocumentedName
	lastLine, lastDocumented := 0, false
	for _, d := range f.Decls {
		documented := lastDocumented && fset.Position(d.Pos()).Line == lastLine+1
		switch d := d.(type) {
		case *ast.FuncDecl:
			documented = documented || d.Doc != nil
			if !documented && d.Name.IsExported() && exportedReceiver(d) && !(d.Recv != nil && slices.Contains(plainMethods, d.Name.Name)) {
				list = append(list, undocumentedName{d.Name.Name, d.Pos()})
			}
		case *ast.GenDecl:
			documented = documented || d.Doc != nil
			if !documented {
				list = append(list, undocumentedSpecs(d)...)
			}
		}
		lastLine, lastDocumented = fset.Position(d.End()).Line, documented
	}
	return list
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !exported {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}

// undocumentedSpecs looks inside a group: each name may carry its own comment, before or behind it. A run of constants of one type needs none but its type's.
func undocumentedSpecs(d *ast.GenDecl) []undocumentedName {
	var list []undocumentedName
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && s.Comment == nil {
				list = append(list, undocumentedName{s.Name.Name, s.Pos()})
			}
		case *ast.ValueSpec:
			if d.Tok == token.CONST && d.Lparen.IsValid() {
				continue
			}
			for _, name := range s.Names {
				if name.IsExported() && s.Doc == nil && s.Comment == nil {
					list = append(list, undocumentedName{name.Name, name.Pos()})
				}
			}
		}
	}
	return list
}

func TestUntidyIsFound(t *testing.T) {
	source := "package p\n\nimport \"time\"\n\nfunc Bare() {}\n\n// Told is documented.\nfunc Told() {}\nfunc Beside() {}\n\ntype T struct{}\n\nvar V = 1\n\nfunc long() {\n" +
		strings.Repeat("\t_ = time.Now()\n", maxFunctionLines) + "}\n"
	if got := untidy(t, "p.go", []byte(source)); len(got) != 4 {
		t.Errorf("found %q, want Bare, T, V and long", got)
	}
	sleeper := "package p\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"
	if got := untidy(t, "p_test.go", []byte(sleeper)); len(got) != 1 {
		t.Errorf("found %q, want the sleep", got)
	}
	for line, want := range map[string]bool{"// TO" + "DO later": true, "see /ro" + "ot/x": true, "a todo list": false, "../home/x": false} {
		got := slices.ContainsFunc(banned, func(b struct {
			what    string
			pattern *regexp.Regexp
		}) bool {
			return b.pattern.MatchString(line)
		})
		if got != want {
			t.Errorf("%q banned: %v, want %v", line, got, want)
		}
	}
}
