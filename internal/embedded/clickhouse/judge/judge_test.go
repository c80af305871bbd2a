package judge

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func rulesFor(t testing.TB) *Rules {
	t.Helper()
	return New("millrace", []string{"sum", "file", "brandNew"})
}

func TestText(t *testing.T) {
	r := rulesFor(t)
	s := func(text string) Statement {
		return Statement{Text: text, Params: map[string]string{
			"t": "facts", "f": "file", "p": "system.processes",
			"x": "a b",
		}, Functions: []string{"made"}}
	}
	for _, text := range []string{
		"SELECT sum(a), `sum`(1), sumIf(a, b), quantile(0.5)(x) FROM t", "SELECT a AS file, t.file FROM t",
		"SELECT {v:Array(String)}, * FROM {t:Identifier}",
		"WITH t(a, b) AS (SELECT 1, 2) SELECT a FROM t", "SELECT 'file(1)', `a.b`, CAST(x, 'Enum8(\\'a\\' = -1)')",
		"SELECT * FROM t AS u(a, b)",
		"SELECT arrayMap(x -> (x + 1), a) FROM t WINDOW w AS (ORDER BY a ASC)", "SELECT * APPLY sum FROM t",
		"SHOW TABLES FROM millrace LIKE 'a\\\\_%' LIMIT 3",
		"EXPLAIN PIPELINE graph = 1, header = 1 SELECT 1", "EXISTS TABLE a.b", "DESCRIBE TABLE (SELECT 1)",
		"SELECT now(), now('UTC'), toHour(a, 'America/Argentina/Buenos_Aires'), toDateTime(a, 3), toTimezone(a, " +
			"'Etc/GMT-5'), arrayMap(toString, a)",
	} {
		if _, err := r.Text(s(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, what := range map[string]string{
		"SELECT file(1)": "function file", "SELECT FiLe(1)": "function FiLe", "SELECT `file`(1)": "function file",
		"SELECT f(file)":   "function f",
		"SELECT sum(file)": "function file", "SELECT sum(`file`)": "function file", "SELECT made(1)": "function made",
		"SELECT sum(Made)":   "function Made",
		"SELECT brandNew(1)": "function brandNew", "SELECT sum(brandNew)": "function brandNew",
		"SELECT sum({f:Identifier})":               "function file",
		"SELECT * FROM {p:Identifier}":             "table system.processes",
		"SELECT {x:Identifier}":                    `the value "a b" of the parameter x`,
		"SELECT {v:AggregateFunction(sum, UInt8)}": `the type "AggregateFunction(sum, UInt8)"`,
		"SELECT a.sum(1)":                          "the call of sum",
		"SELECT 'sum'(1)":                          `a call of "sum"`,
		"SELECT 1 -- x":                            `the character '-' at this place`,
		"SELECT 1; SELECT 2":                       "the character ';' at this place",
		"SELECT _CAST(1, 'UInt8')":                 "function _CAST", "SELECT 1 # x": "the character '#' at this place",
		"SELECT $$a$$": "the character '$' at this place", "SELECT 'a": "a quote without its end",
		"SELECT `a\nb`": `the name "a\nb"`, "SELECT `a (alias b)`": `the name "a (alias b)"`,
		"SELECT ) (":   "a parenthesis without its begin",
		"DROP TABLE t": "this kind of statement", "SHOW TABLES WHERE 1": "this form of SHOW",
		"SHOW TABLES LIKE '\\''":            "this form of SHOW",
		"SELECT cast(1, a)":                 "a computed argument of function cast",
		"SELECT cast(1, 'a' AS b)":          "a computed argument of function cast",
		"SELECT JSONExtract(a, 'b', ['c'])": "a computed argument of function JSONExtract",
		"SELECT 1 SETTINGS a = 1":           "SETTINGS in a statement",
		"SELECT * FROM t AS file(a)":        "function file", "SELECT 1 FORMAT JSON": "FORMAT at this place",
		"SELECT default.a":                "database default",
		"SELECT toTimezone(a, 'file:/a')": `the time zone "file:/a"`, "SELECT now('../a')": `the time zone "../a"`,
		"SELECT toHour(a, concat('b', 'c'))":        "a computed argument of function toHour",
		"SELECT CAST(a, 'DateTime(\\'file:/a\\')')": `the type "DateTime('file:/a')"`,
		"SELECT arrayMap(toString, a, b)":           "function toString as an argument",
	} {
		var refusal *Refusal
		if _, err := r.Text(s(text)); !errors.As(err, &refusal) || refusal.What != what {
			t.Errorf("%s: %v, want %s", text, err, what)
		}
	}
}

func TestTypes(t *testing.T) {
	r := rulesFor(t)
	for _, s := range []string{
		"UInt8", "Nullable(String)", "Array(Tuple(a UInt8, `b c` Map(String, Array(Date))))", "Tuple(UInt8, String)",
		"Enum8('a' = 1, 'b' = -2)", "Enum('a', 'b')",
		"DateTime64(3, 'UTC')", "Decimal(9, 2)", "DOUBLE PRECISION",
		"JSON(a.b UInt32, SKIP c.d, SKIP REGEXP 'x', max_dynamic_paths = 8)", "Dynamic(max_types=2)", "Tuple()",
	} {
		if err := r.typeName(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
		if err := r.structure("a " + s + ", `b c` " + s); err != nil {
			t.Errorf("a %s: %v", s, err)
		}
	}
	for _, s := range []string{
		"", "UInt8 DEFAULT 1", "UInt8 ALIAS a", "String ALIAS file('x')", "file('x')", "Array(file('x'))",
		"Array(UInt8", "Array(UInt8))", "UInt8, UInt8", "UInt8 CODEC(NONE)",
		"Tuple(a UInt8 DEFAULT 1)", "UInt8 COMMENT 'x'", "UInt8 TTL now()", "UInt8 NOT NULL", "UInt8 /* */",
		"UInt8 -- x", "AggregateFunction(sum, UInt8)", "Nullable(plus(1, 2))",
		"Enum8('a' = file('x'))", "Enum8('a' = 1 + 1)", "FixedString(length('x'))", "DateTime(timezone())",
		"JSON(SKIP file('x'))", "JSON(max_dynamic_paths = file('x'))", "Array(a.b)",
	} {
		if err := r.typeName(s); err == nil {
			t.Errorf("%s is admitted", s)
		}
		if err := r.structure("a UInt8, b " + s); err == nil {
			t.Errorf("b %s is admitted", s)
		}
	}
	for _, s := range []string{
		"", "UInt8", "a UInt8,", "a UInt8 b UInt8", "a", "a.b UInt8",
		"a UInt8, INDEX b a TYPE minmax", "a UInt8, CONSTRAINT c CHECK a", "1 UInt8", "'a' UInt8",
	} {
		if err := r.structure(s); err == nil {
			t.Errorf("the structure %q is admitted", s)
		}
	}
}

// TestLongTexts: a text is judged in time, whatever it repeats.
func TestLongTexts(t *testing.T) {
	r := rulesFor(t)
	const size = 256 << 10 // the engine reads no more
	for _, part := range []string{
		"sum(", "sum(a, ", "CAST(1, 'UInt8'), ", "IN (", "IN a.b, ", "((", "[", "'a', ", "JSONExtract(1, ",
		"`a`(a, a, ", "sumIfIfIfIfIfIf", "{a:UInt8}, ", "a.", "SELECT ",
	} {
		text := "SELECT " + strings.Repeat(part, size/len(part))
		begin := time.Now()
		_, _ = r.Text(Statement{Text: text})
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s repeated: %s", part, took)
		}
	}
	for _, part := range []string{"Array(", "Tuple(a ", "UInt8, ", "INT ", "a.", "JSON(SKIP a."} {
		begin := time.Now()
		_ = r.typeName(strings.Repeat(part, size/len(part)))
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s repeated: %s", part, took)
		}
	}
}

// FuzzText: no text is admitted into which a call or a name is put that analysts
// may not have, wherever it stands and whatever is around it.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		"SELECT sum(a), x.y AS z FROM t WHERE a IN (1, 2) GROUP BY ALL",
		"SELECT arrayMap(x -> x, [1]), CAST(a, 'Array(UInt8)') FROM t", "SHOW TABLES LIKE 'a'",
		"EXPLAIN PLAN header = 1 SELECT 1", "DESCRIBE TABLE numbers(3)", "SELECT * FROM values('a UInt8', (1)) AS t(x)",
		"SELECT {a:UInt8}, `b c`, 'd\\'e', 1e-7",
	} {
		f.Add(text, uint(3))
	}
	r := rulesFor(f)
	f.Fuzz(func(t *testing.T, text string, at uint) {
		if strings.HasPrefix(text, "SET") || strings.HasPrefix(text, "USE") {
			return // nothing in them is run
		}
		if _, err := r.Text(Statement{Text: text}); err != nil {
			return
		}
		starts := []int{} // of the tokens behind the first one
		for l := (lexer{text}); ; {
			l.rest = strings.TrimLeft(l.rest, " ")
			if l.rest == "" {
				break
			}
			if _, err := l.next(); err != nil {
				t.Fatalf("%q is admitted and has no token at %q", text, l.rest)
			}
			starts = append(starts, len(text)-len(l.rest))
		}
		cut := starts[at%uint(len(starts))]
		for _, part := range []string{
			" file(1) ", " FILE (1) ", " `file`(1) ", " brandNew(1) ", " (default.x) ",
			" 'a'(1) ", " ; ", " # ", " $a$ ", " -- ", " /* ",
		} {
			worse := text[:cut] + part + text[cut:]
			if _, err := r.Text(Statement{Text: worse}); err == nil {
				t.Fatalf("%q is admitted", worse)
			}
		}
	})
}

// FuzzTree: no tree is admitted that a node is added to which analysts may not
// have, wherever it stands and whatever is around it.
func FuzzTree(f *testing.F) {
	f.Add("SelectWithUnionQuery (children 1)\n ExpressionList (children 1)\n  SelectQuery (children 2)\n   "+
		"ExpressionList (children 1)\n    Literal UInt64_1\n", uint(3))
	f.Add("SelectWithUnionQuery (children 1)\n Function sum (alias file (alias x) (children 1)\n  TableIdentifier "+
		"millrace.events\n", uint(1))
	f.Add("Set\n", uint(0))
	r := rulesFor(f)
	refused := []string{
		"Function file (children 1)", "Function file (alias sum) (children 1)", "TableIdentifier system.processes",
		"Identifier default.x", "CreateQuery t", "DropQuery",
		"APPLY", "Function sumx (alias x) (children 1)", "Identifier system.users (alias events)",
		"Literal 'x' (alias y)\nInsertQuery", "ShowTables", "SelectQuery",
	}
	f.Fuzz(func(t *testing.T, tree string, at uint) {
		found := Found{Selects: strings.Count(tree, "SelectQuery")}
		if _, err := r.Tree(tree, found); err != nil {
			return
		}
		lines := strings.SplitAfter(strings.TrimSuffix(tree, "\n")+"\n", "\n")
		at = 1 + at%uint(len(lines)-1)
		above := lines[at-1]
		indent := above[:len(above)-len(strings.TrimLeft(above, " "))]
		for _, node := range refused {
			worse := strings.Join(lines[:at], "") + indent + " " + node + "\n" + strings.Join(lines[at:], "")
			if _, err := r.Tree(worse, found); err == nil {
				t.Fatalf("%q is admitted", worse)
			}
		}
	})
}
