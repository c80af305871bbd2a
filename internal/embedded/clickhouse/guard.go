package clickhouse

import (
	"fmt"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// vet admits an analyst's statement, and makes q the text that was judged.
//
// The engine's own parser judges: it writes the statement anew, as one and
// without comments, and that text's syntax tree must consist of known nodes,
// functions and tables only. What is not known is refused. readonly = 1 stands
// behind this as the engine's own check.
func (e *engine) vet(conn *chdb.Conn, q *query) (root string, err error) {
	text, err := conn.Query("SELECT formatQuerySingleLine("+quote(q.Text)+")", "TSVRaw")
	if err != nil {
		return "", err
	}
	q.Text = strings.TrimSuffix(string(text.Data), "\n")
	tree, err := conn.Query("EXPLAIN AST "+q.Text, "TSV", q.params...)
	if err != nil {
		return "", err
	}
	return e.names.judge(string(tree.Data))
}

// readerRoots are the statements of the read-only login.
var readerRoots = words(`SelectWithUnionQuery SelectIntersectExceptQuery SelectQuery DescribeQuery Explain
	ShowTables ShowColumns ShowFunctions ShowEngineQuery ShowSetting
	ShowCreateTableQuery ShowCreateViewQuery ShowCreateDatabaseQuery
	ExistsTableQuery ExistsViewQuery ExistsDatabaseQuery Set UseQuery`)

// readerNodes are the nodes of a syntax tree besides. Those that EXPLAIN AST
// prints without what they hold are not among them: APPLY and the WINDOW clause
// could hide a call.
var readerNodes = words(`ExpressionList Function Identifier TableIdentifier Literal Asterisk QualifiedAsterisk
	ColumnsRegexpMatcher ColumnsListMatcher QualifiedColumnsRegexpMatcher QualifiedColumnsListMatcher
	ColumnsTransformerList ColumnsExceptTransformer ColumnsReplaceTransformer ColumnsReplaceTransformer::Replacement
	TablesInSelectQuery TablesInSelectQueryElement TableExpression TableJoin ArrayJoin
	Subquery WithElement OrderByElement WindowDefinition InterpolateElement SampleRatio`)

// readerTableFunctions make their rows themselves.
var readerTableFunctions = words(`numbers numbers_mt zeros zeros_mt generateRandom generateSeries generate_series
	values view primes null`)

// refusedFunctions reach files, the network, other tables' storage or the
// process.
var refusedFunctions = words(`file catboostEvaluate joinGet joinGetOrNull hasColumnInTable addressToLine
	addressToLineWithInlines addressToSymbol demangle logTrace showCertificate getOSKernelVersion generateSerialID
	fullHostName filesystemAvailable filesystemCapacity filesystemUnreserved structureToCapnProtoSchema
	structureToProtobufSchema getServerSetting getMacro naiveBayesClassifier`)

// systemTables tell about the schema, not about other clients or the machine.
var systemTables = words(`tables columns databases functions formats settings one numbers numbers_mt zeros zeros_mt
	parts parts_columns data_type_families aggregate_function_combinators time_zones contributors licenses keywords
	data_skipping_indices projections table_engines table_functions version`)

func words(s string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(s) {
		set[w] = true
	}
	return set
}

// functionNames are the engine's own functions.
type functionNames struct {
	plain      map[string]bool // exact names
	folded     map[string]bool // in lower case, of those that ignore case
	aggregates map[string]bool
	suffixes   []string // of aggregate functions: -If, -State, …
}

func loadFunctionNames(conn *chdb.Conn) (functionNames, error) {
	n := functionNames{
		// The parser's own, which are not in the list.
		plain:  words("lambda exists untuple grouping"),
		folded: map[string]bool{}, aggregates: map[string]bool{},
	}
	rows, err := conn.Query("SELECT name, case_insensitive, is_aggregate FROM system.functions WHERE origin = 'System' AND name NOT ILIKE 'ai%'", "TSV")
	if err != nil {
		return n, fmt.Errorf("list functions: %w", err)
	}
	for line := range strings.Lines(string(rows.Data)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if refusedFunctions[fields[0]] {
			continue
		}
		n.plain[fields[0]] = true
		if fields[1] == "1" {
			n.folded[strings.ToLower(fields[0])] = true
		}
		if fields[2] == "1" {
			n.aggregates[fields[0]] = true
		}
	}
	rows, err = conn.Query("SELECT name FROM system.aggregate_function_combinators", "TSV")
	if err != nil {
		return n, fmt.Errorf("list combinators: %w", err)
	}
	n.suffixes = strings.Fields(string(rows.Data))
	return n, nil
}

// known tells whether name is a function that analysts may call.
func (n functionNames) known(name string) bool {
	return n.plain[name] || n.folded[strings.ToLower(name)] || n.aggregate(name)
}

func (n functionNames) aggregate(name string) bool {
	if n.aggregates[name] || n.folded[strings.ToLower(name)] {
		return true
	}
	for _, suffix := range n.suffixes {
		if base, ok := strings.CutSuffix(name, suffix); ok && base != "" && n.aggregate(base) {
			return true
		}
	}
	return false
}

func denied(format string, args ...any) error {
	return exception(codeAccessDenied, "ACCESS_DENIED", "Not enough privileges: "+format, args...)
}

// judge reads a tree as EXPLAIN AST prints it: a node a line, indented by depth.
func (n functionNames) judge(tree string) (root string, err error) {
	parents := []string{} // the node above, by depth
	for line := range strings.Lines(tree) {
		line = strings.TrimSuffix(line, "\n")
		text := strings.TrimLeft(line, " ")
		depth := len(line) - len(text)
		kind, rest, _ := strings.Cut(text, " ")
		if depth > len(parents) {
			return "", denied("the statement's tree is not understood")
		}
		parents = append(parents[:depth], kind)
		if depth == 0 {
			if root, err = kind, judgeRoot(root, kind); err != nil {
				return "", err
			}
		}
		if err := n.judgeNode(parents, kind, rest); err != nil {
			return "", err
		}
	}
	if root == "" {
		return "", denied("the statement's tree is empty")
	}
	return root, nil
}

func judgeRoot(before, kind string) error {
	if before != "" {
		return denied("several statements")
	}
	if !readerRoots[kind] {
		return errReadOnly()
	}
	return nil
}

func (n functionNames) judgeNode(parents []string, kind, rest string) error {
	depth := len(parents) - 1
	switch {
	case kind == "Literal" && depth > 0 && parents[depth-1] != "SelectQuery" && readerRoots[parents[depth-1]]:
		return denied("INTO OUTFILE")
	case !readerNodes[kind] && !readerRoots[kind]:
		return denied("%s", kind)
	}
	switch kind {
	case "Function":
		name := argument(rest)
		table := depth > 0 && parents[depth-1] == "TableExpression"
		if table && !readerTableFunctions[name] {
			return denied("table function %s", name)
		}
		if !table && !n.known(name) {
			return denied("function %s", name)
		}
	case "Identifier", "TableIdentifier":
		return judgeName(argument(rest))
	case "ShowCreateTableQuery", "ShowCreateViewQuery", "ExistsTableQuery", "ExistsViewQuery":
		database, table, _ := strings.Cut(argument(rest), " ")
		return judgeName(database + "." + table)
	case "Explain":
		return judgeExplain(argument(rest))
	}
	return nil
}

// judgeName refuses tables that are files, and the engine's inner life.
func judgeName(name string) error {
	database, table, qualified := strings.Cut(name, ".")
	if forbiddenDatabase(database) {
		return denied("database %s", database)
	}
	if qualified && database == "system" && !systemTables[table] {
		return denied("table %s", name)
	}
	return nil
}

// forbiddenDatabase is one whose tables are whatever files they are named after.
func forbiddenDatabase(name string) bool {
	return name == "default" || name == "_temporary_and_external_tables"
}

func judgeExplain(kind string) error {
	switch strings.TrimSpace(strings.TrimPrefix(kind, "EXPLAIN")) {
	case "", "AST", "SYNTAX", "QUERY TREE", "PIPELINE", "ESTIMATE", "PLAN":
		return nil
	}
	return denied("%s", kind)
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
