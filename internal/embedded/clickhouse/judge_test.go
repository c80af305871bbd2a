package clickhouse

import (
	"strings"
	"testing"
)

// FuzzJudge: no tree is admitted that a node is added to which analysts may not
// have, wherever it stands and whatever is around it.
func FuzzJudge(f *testing.F) {
	f.Add("SelectWithUnionQuery (children 1)\n ExpressionList (children 1)\n  SelectQuery (children 2)\n   ExpressionList (children 1)\n    Literal UInt64_1\n", uint(3))
	f.Add("SelectWithUnionQuery (children 1)\n Function sum (alias file (alias x) (children 1)\n  TableIdentifier millrace.events\n", uint(1))
	f.Add("Set\n", uint(0))
	names := functionNames{plain: words("sum plus lambda"), folded: map[string]bool{}, aggregates: words("sum"), suffixes: []string{"If"}}
	refused := []string{
		"Function file (children 1)", "Function file (alias sum) (children 1)", "TableIdentifier system.processes", "Identifier default.x", "CreateQuery t", "DropQuery",
		"APPLY", "Function sumx (alias x) (children 1)", "Identifier system.users (alias events)", "Literal 'x' (alias y)\nInsertQuery",
	}
	f.Fuzz(func(t *testing.T, tree string, at uint) {
		if _, err := names.judge(tree); err != nil {
			return
		}
		lines := strings.SplitAfter(strings.TrimSuffix(tree, "\n")+"\n", "\n")
		at = 1 + at%uint(len(lines)-1)
		above := lines[at-1]
		indent := above[:len(above)-len(strings.TrimLeft(above, " "))]
		for _, node := range refused {
			worse := strings.Join(lines[:at], "") + indent + " " + node + "\n" + strings.Join(lines[at:], "")
			if root, err := names.judge(worse); err == nil {
				t.Fatalf("%q is admitted as %s", worse, root)
			}
		}
	})
}
