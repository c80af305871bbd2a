package judge

import (
	"regexp"
	"slices"
	"strings"
)

// likePattern is a pattern without quotes, and with backslashes only where they
// escape a wildcard.
var likePattern = regexp.MustCompile(`^([^\\'"` + "`" + `\x00-\x1f\x7f]|\\[_%])*$`)

// listings are what SHOW lists, by how many of FROM … may follow.
var listings = map[string]int{
	"TABLES": 1, "DICTIONARIES": 1, "COLUMNS": 2, "DATABASES": 0, "FUNCTIONS": 0, "SETTINGS": 0,
}

// form judges SHOW and EXISTS: they have forms without expressions.
//
//	SHOW [FULL] [EXTENDED] [TEMPORARY] [CHANGED] listing [FROM name [FROM name]] [[NOT] LIKE 'pattern'] [LIMIT 7]
//	SHOW CREATE [TABLE | VIEW | DATABASE] name
//	SHOW SETTING name
//	SHOW ENGINES
//	EXISTS [TEMPORARY] [TABLE | VIEW | DATABASE | DICTIONARY] name
func (j *reading) form() error {
	f := form{rest: j.tokens[1:]}
	switch {
	case j.at(0).keyword("EXISTS"):
		f.any("TEMPORARY")
		f.object("TABLE", "VIEW", "DATABASE", "DICTIONARY")
	case f.any("CREATE"):
		f.any("TEMPORARY")
		f.object("TABLE", "VIEW", "DATABASE")
	case f.any("SETTING"):
		f.name()
	case f.any("ENGINES"):
	default:
		f.listing()
	}
	if f.wrong || len(f.rest) > 0 {
		return refuseHint("SELECT from system.tables and the like", "this form of %s", j.at(0).text)
	}
	j.found.Tables = append(j.found.Tables, f.tables...)
	return nil
}

// form is what is left of a statement; wrong when it has no known form.
type form struct {
	rest   []token
	tables []Table
	wrong  bool
}

func (f *form) peek() token {
	if len(f.rest) == 0 {
		return token{kind: nothing}
	}
	return f.rest[0]
}

// any takes one of these words if it is there.
func (f *form) any(words ...string) bool {
	if t := f.peek(); t.kind != word || !slices.Contains(words, t.text) {
		return false
	}
	f.rest = f.rest[1:]
	return true
}

func (f *form) symbol(s string) bool {
	if !f.peek().is(s) {
		return false
	}
	f.rest = f.rest[1:]
	return true
}

func (f *form) name() string {
	t := f.peek()
	if !t.names() || strings.ContainsAny(t.text, "\\'\"`") {
		f.wrong = true
		return ""
	}
	f.rest = f.rest[1:]
	return t.text
}

// object takes the name of a table, of a database, or of a table with its
// database.
func (f *form) object(kinds ...string) {
	database := f.peek().keyword("DATABASE")
	f.any(kinds...)
	first := f.name()
	if database {
		f.tables = append(f.tables, Table{Database: first})
	} else if f.symbol(".") {
		f.tables = append(f.tables, Table{first, f.name()})
	}
}

func (f *form) listing() {
	for f.any("FULL", "EXTENDED", "TEMPORARY", "CHANGED") {
	}
	from, known := listings[f.peek().text]
	f.name()
	f.wrong = f.wrong || !known
	var names []string
	for len(names) < from && f.any("FROM", "IN") {
		names = append(names, f.name())
	}
	if len(names) == from && from > 0 { // the last one is a database
		f.tables = append(f.tables, Table{Database: names[from-1]})
	}
	f.any("NOT")
	if f.any("LIKE", "ILIKE") {
		t := f.peek()
		f.wrong = f.wrong || t.kind != text || !likePattern.MatchString(t.text)
		f.rest = f.rest[min(1, len(f.rest)):]
	}
	if f.any("LIMIT") {
		f.wrong = f.wrong || f.peek().kind != number
		f.rest = f.rest[min(1, len(f.rest)):]
	}
}

// explanations are kinds of EXPLAIN; what they explain is not run.
var explanations = []string{"AST", "SYNTAX", "QUERY TREE", "PLAN", "PIPELINE", "ESTIMATE"}

// explainOptions say how an explanation is written.
var explainOptions = strings.Fields(`header description actions indexes projections sorting json graph compact
	run_passes dump_passes passes dump_tree dump_ast optimize keep_logical_steps distributed oneline
	run_query_tree_passes query_tree_passes pretty input_headers column_structure`)

// explained reads what stands in front of the explained statement, which begins
// at start.
func (j *reading) explained() (start int, err error) {
	start = 1
	for _, kind := range explanations {
		words := strings.Fields(kind)
		same := true
		for i, w := range words {
			same = same && j.at(1+i).keyword(w)
		}
		if same {
			start += len(words)
			break
		}
	}
	for j.at(start).kind == word && j.at(start+1).is("=") {
		if !slices.Contains(explainOptions, j.at(start).text) || j.at(start+2).kind != number {
			return 0, refuse("EXPLAIN %s", j.at(start).text)
		}
		start += 3
		if j.at(start).is(",") {
			start++
		}
	}
	if t := j.at(start); t.keyword("SELECT") || t.keyword("WITH") || t.is("(") {
		return start, nil
	}
	return 0, refuse("EXPLAIN of this kind")
}
