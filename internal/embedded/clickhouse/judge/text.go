package judge

import (
	"regexp"
	"slices"
	"strings"
)

// Statement is a statement as the engine has written it, and what belongs to it.
type Statement struct {
	Text      string
	Params    map[string]string // values of {name:Type}
	Functions []string          // names of functions that users of the engine have made
}

// Found is what the text's judge leaves to others to judge.
type Found struct {
	Tables  []Table // beside those of the tree
	Selects int     // how many SELECTs the text has
	Params  int     // how many values of parameters, each of which the tree casts to its type
}

// Text judges a statement's text.
func (r *Rules) Text(s Statement) (Found, error) {
	tokens, err := lex(s.Text)
	if err != nil {
		return Found{}, err
	}
	tokens, values, err := r.substitute(tokens, s.Params)
	if err != nil {
		return Found{}, err
	}
	j := &reading{rules: r, tokens: tokens, made: map[string]bool{}, found: Found{Params: values}}
	for _, name := range s.Functions {
		j.made[strings.ToLower(name)] = true
	}
	if err := j.statement(); err != nil {
		return Found{}, err
	}
	return j.found, nil
}

var plainIdentifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$`)

// substitute puts the values of {name:Identifier} in their places, and counts the
// other parameters and judges their types: their values are data.
func (r *Rules) substitute(tokens []token, params map[string]string) (out []token, values int, err error) {
	out = make([]token, 0, len(tokens))
	for _, t := range tokens {
		if t.kind != param {
			out = append(out, t)
			continue
		}
		name, kind, _ := strings.Cut(t.text, ":")
		if kind != "Identifier" {
			if err := r.typeName(kind); err != nil {
				return nil, 0, err
			}
			out = append(out, t)
			values++
			continue
		}
		value := params[name]
		if !plainIdentifier.MatchString(value) {
			return nil, 0, refuse("the value %q of the parameter %s", value, name)
		}
		first, second, compound := strings.Cut(value, ".")
		out = append(out, token{quoted, first})
		if compound {
			out = append(out, token{symbol, "."}, token{quoted, second})
		}
	}
	return out, values, nil
}

// reading is a text under judgement.
type reading struct {
	rules  *Rules
	tokens []token
	made   map[string]bool // functions that users have made, in lower case
	calls  []call          // that are open
	found  Found
}

func (j *reading) at(i int) token {
	if i >= 0 && i < len(j.tokens) {
		return j.tokens[i]
	}
	return token{kind: nothing}
}

func (j *reading) statement() error {
	switch first := j.at(0); {
	case first.keyword("SHOW"), first.keyword("EXISTS"):
		return j.form()
	case first.keyword("SET"), first.keyword("USE"):
		return nil // what they set and use is judged by itself
	case first.keyword("EXPLAIN"):
		start, err := j.explained()
		if err != nil {
			return err
		}
		return j.expressions(start)
	case first.keyword("DESCRIBE") && j.at(1).keyword("TABLE"):
		return j.expressions(2)
	case first.keyword("DESCRIBE"):
		return j.expressions(1)
	case first.keyword("SELECT"), first.keyword("WITH"), first.is("("):
		return j.expressions(0)
	}
	return refuse("this kind of statement")
}

// expressions judges the tokens from start on.
func (j *reading) expressions(start int) error {
	for i := start; i < len(j.tokens); i++ {
		if err := j.token(i); err != nil {
			return err
		}
	}
	return nil
}

func (j *reading) token(i int) error {
	t, next := j.at(i), j.at(i+1)
	switch {
	case next.is("(") && (t.kind == text || t.kind == param || t.kind == number):
		return refuse("a call of %q", t.text)
	case t.kind == word && next.is("("):
		return j.opened(i)
	case t.kind == quoted && next.is("("):
		return j.called(i)
	case t.names():
		if err := j.clause(i); err != nil {
			return err
		}
		return j.named(i)
	case t.is("("):
		j.calls = append(j.calls, j.entered(i))
	case t.is("[") || t.is("]") || t.is(",") || t.is(")"):
		return j.argument(i)
	}
	return nil
}

// beforeParenthesis are keywords that may stand in front of a parenthesis. None
// of them is a function that is refused.
var beforeParenthesis = strings.Fields(`ALL AND ANY APPLY AS BETWEEN BY CUBE DISTINCT ELSE END EXCEPT FROM HAVING IN
	INTERPOLATE INTERSECT IS JOIN LIKE ILIKE LIMIT MATERIALIZED NOT OFFSET ON OR OVER PREWHERE QUALIFY REPLACE ROLLUP
	SELECT SETS STEP THEN TO USING WHEN WHERE WITH CASE`)

// opened judges a bare word in front of a parenthesis.
func (j *reading) opened(i int) error {
	t := j.at(i)
	if !slices.Contains(beforeParenthesis, t.text) || j.made[strings.ToLower(t.text)] || j.at(i-1).is(".") {
		return j.called(i)
	}
	return j.clause(i)
}

// called judges a name in front of a parenthesis.
func (j *reading) called(i int) error {
	name := j.at(i).text
	switch before := j.at(i - 1); {
	case j.made[strings.ToLower(name)]:
		return refuse("function %s", name)
	case before.is("."):
		if j.at(i).keyword("COLUMNS") {
			return nil // t.COLUMNS('…')
		}
		return refuse("the call of %s", name)
	case before.keyword("AS"), j.columnList(i): // AS t(a, b)
		return j.refusedName(name)
	case j.at(i).keyword("COLUMNS"):
		return nil
	case before.keyword("APPLY") && rules[strings.ToLower(name)] != nil:
		return refuseHint("use a lambda", "APPLY with function %s", name)
	}
	switch verdict := j.rules.function(name); {
	case verdict == Allowed, j.rules.tables[strings.ToLower(name)] == Allowed:
		return nil
	case verdict == Operator:
		return refuseHint("write it as an operator", "function %s", name)
	}
	return refuse("function %s", name)
}

// columnList tells whether the name at i is that of a common table expression
// that names its columns: t(a, b) AS (SELECT …).
func (j *reading) columnList(i int) bool {
	for i += 2; j.at(i).names() || j.at(i).is(","); i++ {
	}
	return j.at(i).is(")") && j.at(i+1).keyword("AS") && j.at(i+2).is("(") &&
		(j.at(i+3).keyword("SELECT") || j.at(i+3).keyword("WITH"))
}

// named judges a name that is not called: the engine takes it for a function
// where it finds no column of that name.
func (j *reading) named(i int) error {
	t := j.at(i)
	before, next := j.at(i-1), j.at(i+1)
	if before.is(".") || before.keyword("AS") {
		return nil
	}
	if next.is(".") {
		_, err := j.rules.Known(j.compound(i))
		return err
	}
	if database, table, ok := strings.Cut(t.text, "."); ok {
		if _, err := j.rules.Known(Table{database, table}); err != nil {
			return err
		}
	}
	if t.kind == word && slices.Contains(beforeParenthesis, t.text) {
		return nil
	}
	if literalOnly(t.text) != nil {
		return refuseHint("qualify a column, as in t."+t.text, "function %s as an argument", t.text)
	}
	return j.refusedName(t.text)
}

// refusedName refuses the names of functions that are not allowed.
func (j *reading) refusedName(name string) error {
	lower := strings.ToLower(name)
	if verdict := j.rules.folded[lower]; verdict == Refused || verdict == Operator || j.made[lower] {
		return refuseHint("qualify a column of that name, as in t."+name, "function %s", name)
	}
	return nil
}

// compound is the table that a.b would be.
func (j *reading) compound(i int) Table { return Table{j.at(i).text, j.at(i + 2).text} }

// clause judges a word as a keyword.
func (j *reading) clause(i int) error {
	t, next := j.at(i), j.at(i+1)
	switch {
	case j.at(i-1).is(".") || t.kind != word:
	case t.text == "SELECT":
		j.found.Selects++
	case t.text == "SETTINGS" && next.kind == word && j.at(i+2).is("="):
		return refuseHint("send settings as parameters, or SET them", "SETTINGS in a statement")
	case t.text == "INTO" && next.keyword("OUTFILE"):
		return refuse("INTO OUTFILE")
	case t.text == "FORMAT" && next.kind == word && len(j.calls) == 0:
		return refuseHint("write it once, last", "FORMAT at this place")
	case t.text == "IN":
		j.in(i)
	}
	return nil
}

// in notes a table on the right side of IN.
func (j *reading) in(i int) {
	for i++; j.at(i).is("("); i++ {
	}
	if j.at(i).names() && j.at(i+1).is(".") && j.at(i+2).names() {
		j.found.Tables = append(j.found.Tables, j.compound(i))
	}
}
