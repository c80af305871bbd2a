package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMeasuredTime holds that what passes is measured by the clock that is
// never set. A moment that has been a number, or was rounded or moved to a
// zone, knows the time of day alone: what waits for it waits for days when the
// clock is set back.
func TestMeasuredTime(t *testing.T) {
	files := 0
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || strings.HasPrefix(e.Name(), ".") && path != "../.."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && calls(call, "time", "Since", "Until") && forgets(call.Args[0]) {
				t.Errorf("%s measures by the time of day", set.Position(call.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d files, %v", files, err)
	}
}

// forgets tells whether an expression makes a time of day of something.
func forgets(moment ast.Expr) (found bool) {
	ast.Inspect(moment, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			found = found || calls(call, "", "Unix", "UnixMilli", "UnixMicro", "UTC", "Local", "In",
				"Round", "Truncate")
		}
		return !found
	})
	return found
}

// calls tells whether a function or method of one of these names is called, of
// a package unless that is empty.
func calls(call *ast.CallExpr, pkg string, names ...string) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if of, ok := f.X.(*ast.Ident); pkg != "" && (!ok || of.Name != pkg) {
		return false
	}
	return slices.Contains(names, f.Sel.Name)
}
