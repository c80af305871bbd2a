package judge

import (
	"slices"
	"strings"
)

// Tree is what the judge has found in a syntax tree.
type Tree struct {
	Root    string  // kind of the statement
	Tables  []Table // named with a database that the rules do not know
	selects int
	casts   int // of parameters to their types
}

// selectNodes are statements that may stand in others.
var selectNodes = strings.Fields("SelectWithUnionQuery SelectIntersectExceptQuery SelectQuery")

// rootNodes are statements that stand alone.
var rootNodes = strings.Fields(`DescribeQuery Explain ShowTables ShowColumns ShowFunctions ShowEngineQuery ShowSetting
	ShowCreateTableQuery ShowCreateViewQuery ShowCreateDatabaseQuery
	ExistsTableQuery ExistsViewQuery ExistsDatabaseQuery ExistsDictionaryQuery Set UseQuery`)

// innerNodes are the nodes of a syntax tree besides.
var innerNodes = strings.Fields(`ExpressionList Function Identifier TableIdentifier Literal Asterisk QualifiedAsterisk
	ColumnsRegexpMatcher ColumnsListMatcher QualifiedColumnsRegexpMatcher QualifiedColumnsListMatcher
	ColumnsTransformerList ColumnsExceptTransformer ColumnsReplaceTransformer ColumnsReplaceTransformer::Replacement
	ColumnsApplyTransformer TablesInSelectQuery TablesInSelectQueryElement TableExpression TableJoin ArrayJoin
	Subquery WithElement OrderByElement WindowDefinition WindowListElement InterpolateElement SampleRatio`)

// Tree judges a tree as EXPLAIN AST prints it: a node a line, indented by depth.
func (r *Rules) Tree(printed string, found Found) (Tree, error) {
	t := Tree{}
	parents := []string{} // the node above, by depth
	for line := range strings.Lines(printed) {
		line = strings.TrimSuffix(line, "\n")
		node := strings.TrimLeft(line, " ")
		depth := len(line) - len(node)
		if depth > len(parents) || depth == 0 && len(parents) > 0 {
			return t, refuse("a statement whose tree has no order")
		}
		name, rest, _ := strings.Cut(node, " ")
		parent := ""
		if depth > 0 {
			parent = parents[depth-1]
		} else {
			t.Root = name
		}
		parents = append(parents[:depth], name)
		if err := place(parent, name); err != nil {
			return t, err
		}
		if err := r.node(&t, parent, name, argument(rest)); err != nil {
			return t, err
		}
	}
	switch {
	case t.Root == "" || t.selects > found.Selects:
		return t, refuse("a statement whose tree is not that of its text")
	case t.selects < found.Selects:
		return t, refuse("SELECT within APPLY or WINDOW")
	case t.casts > found.Params:
		return t, refuse("function %s", paramCast)
	}
	return t, nil
}

// place judges where a node stands.
func place(parent, name string) error {
	inSelect := slices.Contains(selectNodes, parent)
	switch {
	case slices.Contains(selectNodes, name):
		return nil
	case slices.Contains(rootNodes, name):
		if parent == "" || parent == "Explain" && name == "Set" {
			return nil
		}
	case parent == "":
	case inSelect && parent != "SelectQuery" && (name == "Literal" || name == "Identifier"):
		return refuse("INTO OUTFILE, or FORMAT at this place,")
	case slices.Contains(innerNodes, name):
		return nil
	}
	return refuse("%s", name)
}

// paramCast is what the engine makes of {name:Type}, whose type the judge of the
// text has seen. A tree has one for each parameter at most: the judge of the text
// refuses the function where it is written.
const paramCast = "_CAST"

func (r *Rules) node(t *Tree, parent, name, argument string) error {
	switch name {
	case "SelectQuery":
		t.selects++
	case "Function":
		if parent == "TableExpression" {
			if r.tables[strings.ToLower(argument)] != Allowed {
				return refuse("table function %s", argument)
			}
			return nil
		}
		if argument == paramCast {
			t.casts++
			return nil
		}
		if verdict := r.function(argument); verdict != Allowed && verdict != Operator {
			return refuse("function %s", argument)
		}
	case "TableIdentifier", "Identifier":
		database, table, compound := strings.Cut(argument, ".")
		if !compound {
			return nil
		}
		found := Table{database, table}
		known, err := r.Known(found)
		if !known && name == "TableIdentifier" {
			t.Tables = append(t.Tables, found)
		}
		return err
	}
	return nil
}

// argument is what a node's line holds besides its children and alias.
func argument(rest string) string {
	if i := strings.LastIndex(rest, " (children "); i >= 0 {
		rest = rest[:i]
	} else if strings.HasPrefix(rest, "(children ") {
		return ""
	}
	if i := strings.LastIndex(rest, " (alias "); i >= 0 {
		rest = rest[:i]
	}
	return rest
}
