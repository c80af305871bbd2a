package main

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

var update = flag.Bool("update", false, "write docs/faults.md")

// TestFaultsPage: docs/faults.md says what the catalogue says.
func TestFaultsPage(t *testing.T) {
	const file = "../../docs/faults.md"
	var page bytes.Buffer
	must(t, printCatalogue(&page))
	if *update {
		must(t, os.WriteFile(file, page.Bytes(), 0o644))
	}
	text, err := os.ReadFile(file)
	must(t, err)
	if !bytes.Equal(text, page.Bytes()) {
		t.Errorf("%s is not what the catalogue says: run make docs", file)
	}
}

// TestCatalogue: every constant of the type kind is in the catalogue, once, and
// says what it does.
func TestCatalogue(t *testing.T) {
	var declared []kind
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) == 0 {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "kind" {
				name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				must(t, err)
				declared = append(declared, kind(name))
			}
			return true
		})
	}
	listed := everyKind()
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) || len(listed) < 50 {
		t.Errorf("declared are\n%v, in the catalogue\n%v", declared, listed)
	}
	for _, a := range append(slices.Clone(catalogue), onlyNamed) {
		for _, e := range a.kinds {
			if len(e.does) < 10 {
				t.Errorf("the catalogue says nothing of %s", e.kind)
			}
		}
	}
}
