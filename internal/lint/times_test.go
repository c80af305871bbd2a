package lint

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"

	load "golang.org/x/tools/go/packages"
)

// decodedTimes are types with a time.Time that are decoded all the same, and why no time
// that somebody else chose gets into an answer that way.
var decodedTimes = map[string]string{
	"./schemas/stream.WorkItem":          "only Millrace publishes these messages",
	"./schemas/stream.QueueItem":         "only Millrace publishes these messages",
	"./schemas/checkpoint.plain":         "only Millrace writes checkpoints",
	"./schemas/checkpoint.closing":       "only Millrace writes checkpoints",
	"./ingest/backfill.cursor":           "only Millrace writes cursors of backfills",
	"./internal/tracking.FilePlace":      "a cursor, which Postgres alone compares",
	"./internal/embedded/clickhouse":     "a file of the server's own",
	"./internal/httpapi.Health":          "the console prints answers of Millrace",
	"./internal/httpapi.Readiness":       "the console prints answers of Millrace",
	"./cmd/millrace/internal/console":    "the console prints answers of Millrace",
	"./internal/processes.Process":       "only Millrace answers for its processes",
	"./ingest/demo/internal/makesample.": "a tool for developers",
}

// TestTimes holds that package instant alone parses times: one beyond the year 9999, in UTC,
// can be parsed and not be encoded, and breaks whatever answer holds it. Neither does a
// document or a request hold a time.Time, which encoding/json and huma parse.
func TestTimes(t *testing.T) {
	c := timeChecker{t: t, decoders: map[string]bool{}, seen: map[token.Position]bool{}}
	for _, p := range typed(t) {
		if at := local(p.PkgPath); !within(at, "./test", "./schemas/instant") {
			c.all = append(c.all, p)
		}
	}
	for _, p := range c.all {
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				c.calls(p, d)
			}
		}
	}
	if len(c.decoders) < 3 {
		t.Fatalf("only %v decode what callers choose", c.decoders)
	}
	for _, p := range c.all {
		for id, inst := range p.TypesInfo.Instances {
			c.instance(p, id, inst)
		}
	}
}

// typed loads all packages of the module with their types, without their tests.
func typed(t *testing.T) []*load.Package {
	t.Helper()
	all, err := load.Load(&load.Config{
		Dir: root, Mode: load.NeedName | load.NeedFiles | load.NeedImports | load.NeedTypes | load.NeedSyntax |
			load.NeedTypesInfo,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
	}
	return all
}

type timeChecker struct {
	t        *testing.T
	all      []*load.Package
	decoders map[string]bool // functions that decode into a type parameter of theirs
	seen     map[token.Position]bool
}

// requests are the functions whose first type parameter is a request.
var requests = []string{
	"github.com/danielgtaylor/huma/v2.Register", module + "/internal/endpoint.", module + "/query/reads.Get",
}

// calls looks at the calls within a declaration.
func (c *timeChecker) calls(p *load.Package, d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fn := callee(p.TypesInfo, call)
		if fn == nil {
			return true
		}
		switch name := fn.FullName(); name {
		case "time.Parse", "time.ParseInLocation", "(*time.Time).UnmarshalJSON", "(*time.Time).UnmarshalText":
			c.t.Errorf("%s calls %s: use package instant", p.Fset.Position(n.Pos()), name)
		case "encoding/json.Unmarshal", "(*encoding/json.Decoder).Decode":
			of := p.TypesInfo.Types[call.Args[len(call.Args)-1]].Type
			if outer, ok := d.(*ast.FuncDecl); ok && isParameter(of) {
				c.decoders[p.TypesInfo.Defs[outer.Name].(*types.Func).FullName()] = true
			}
			c.check(p.Fset.Position(n.Pos()), of)
		}
		return true
	})
}

// instance looks at the type arguments of a function that decodes into them.
func (c *timeChecker) instance(p *load.Package, id *ast.Ident, inst types.Instance) {
	fn, ok := p.TypesInfo.Uses[id].(*types.Func)
	if !ok {
		return
	}
	decodes := c.decoders[fn.FullName()]
	for _, prefix := range requests {
		decodes = decodes || strings.HasPrefix(fn.FullName(), prefix)
	}
	if decodes {
		c.check(p.Fset.Position(id.Pos()), inst.TypeArgs.At(0))
	}
}

func (c *timeChecker) check(at token.Position, of types.Type) {
	path := timeIn(of, map[types.Type]bool{})
	if path == "" || c.seen[at] {
		return
	}
	c.seen[at] = true
	name := local(strings.TrimPrefix(of.String(), "*"))
	for prefix := range decodedTimes {
		if strings.HasPrefix(name, prefix) {
			return
		}
	}
	c.t.Errorf("%s decodes a time.Time, in %s%s: use instant.Time", at, name, path)
}

func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		fn, _ := info.Uses[f].(*types.Func)
		return fn
	case *ast.SelectorExpr:
		fn, _ := info.Uses[f.Sel].(*types.Func)
		return fn
	}
	return nil
}

func isParameter(of types.Type) bool {
	if p, ok := of.Underlying().(*types.Pointer); ok {
		of = p.Elem()
	}
	_, ok := types.Unalias(of).(*types.TypeParam)
	return ok
}

// timeIn is where a time.Time is in what encoding/json decodes into a type; empty: nowhere.
func timeIn(of types.Type, seen map[types.Type]bool) string {
	if seen[of] {
		return ""
	}
	seen[of] = true
	if named, ok := types.Unalias(of).(*types.Named); ok {
		if named.String() == "time.Time" {
			return " itself"
		}
		for _, method := range [...]string{"UnmarshalJSON", "UnmarshalText"} {
			if m, _, _ := types.LookupFieldOrMethod(named, true, named.Obj().Pkg(), method); m != nil {
				return "" // in which a call is found
			}
		}
	}
	switch u := of.Underlying().(type) {
	case interface{ Elem() types.Type }:
		return timeIn(u.Elem(), seen)
	case *types.Struct:
		for f := range u.Fields() {
			if path := timeIn(f.Type(), seen); path != "" && (f.Exported() || f.Embedded()) {
				return "." + f.Name() + strings.TrimSuffix(path, " itself")
			}
		}
	}
	return ""
}
