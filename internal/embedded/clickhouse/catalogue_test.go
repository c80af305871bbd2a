package clickhouse_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/judge"
)

// catalogue asks the engine for the names of each kind that the judge has a list
// of.
var catalogue = map[string]string{
	"functions":       "SELECT name FROM system.functions WHERE NOT is_aggregate AND origin = 'System'",
	"aggregates":      "SELECT name FROM system.functions WHERE is_aggregate",
	"combinators":     "SELECT name FROM system.aggregate_function_combinators",
	"table_functions": "SELECT name FROM system.table_functions",
	"table_engines":   "SELECT name FROM system.table_engines",
	"types":           "SELECT name FROM system.data_type_families",
	"formats":         "SELECT name FROM system.formats",
	"settings":        "SELECT name FROM system.settings",
	"system_tables":   "SELECT name FROM system.tables WHERE database = 'system'",
}

// parsersOwn are functions of the engine's parser, which are in no catalogue.
var parsersOwn = []string{"lambda", "exists", "untuple", "grouping"}

func names(t *testing.T, sql string) []string {
	t.Helper()
	status, _, text := call(t, "POST", nil, sql)
	if status != 200 {
		t.Fatalf("%s: %d %s", sql, status, text)
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// TestCatalogue: whatever the engine has is on a list, and the lists have nothing
// else. A new version of the engine fails this until someone has judged what is
// new in it.
func TestCatalogue(t *testing.T) {
	lists := judge.Lists()
	if len(lists) != len(catalogue) {
		t.Errorf("%d lists, of which %d are compared", len(lists), len(catalogue))
	}
	for kind, sql := range catalogue {
		there := names(t, sql)
		for _, name := range there {
			if lists[kind][name] == judge.Unlisted {
				t.Errorf("%s: %s is not classified", kind, name)
			}
		}
		for name := range lists[kind] {
			if !slices.Contains(there, name) && (kind != "functions" || !slices.Contains(parsersOwn, name)) {
				t.Errorf("%s: the engine has no %s", kind, name)
			}
		}
	}
}

// vetting judges statements without running them. Admitted and refused count
// what it was asked for.
type vetting struct {
	*testing.T
	*clickhouse.Vetting
	admitted, refused int
}

func vet(t *testing.T) *vetting {
	t.Helper()
	prepareSecrets(t)
	v, err := server.Vetting()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return &vetting{T: t, Vetting: v}
}

const accessDenied, readOnly = 497, 164

func (v *vetting) admits(sql string) {
	v.Helper()
	v.admitted++
	if err := v.Vet(sql); err != nil {
		v.Errorf("%s: %v", sql, err)
	}
}

// refuses wants the judge to refuse sql, and to name what it refuses.
func (v *vetting) refuses(name, sql string) {
	v.Helper()
	v.refused++
	err := v.Vet(sql)
	var e *chdb.Exception
	switch {
	case err == nil:
		v.Errorf("%s is admitted", sql)
	case !errors.As(err, &e) || e.Code != accessDenied ||
		!strings.Contains(strings.ToLower(e.Message), strings.ToLower(name)):
		v.Errorf("%s: %v", sql, err)
	}
}

// positions are places in which a function's name can stand; %[1]s is the name.
var positions = []string{
	"SELECT %[1]s('a')", "SELECT `%[1]s`('a')", "SELECT 1 + %[1]s(%[1]s(1))",
	"SELECT 1 AS x WHERE %[1]s(x) = 1 ORDER BY x",
	"SELECT arrayMap(%[1]s, ['a'])", "SELECT arrayMap(`%[1]s`, ['a'])", "SELECT arraySort(%[1]s, ['a'])",
	"SELECT arrayMap(x -> %[1]s(x), ['a'])",
	"SELECT arrayFold(%[1]s, ['a'], '')", "SELECT mapApply(%[1]s, map(1, 2))",
	"SELECT * APPLY(%[1]s) FROM facts", "SELECT * APPLY %[1]s FROM facts",
	"SELECT COLUMNS('a') APPLY(x -> %[1]s(x)) FROM facts",
	"WITH %[1]s AS f SELECT arrayMap(f, ['a'])", "WITH %[1]s('a') AS f SELECT f",
	"WITH f AS (SELECT %[1]s('a') AS x) SELECT x FROM f",
	"SELECT sum(a) OVER w FROM facts WINDOW w AS (ORDER BY %[1]s(a))",
	"SELECT a FROM facts ORDER BY a WITH FILL TO %[1]s(1)",
	"SELECT s, a FROM facts ORDER BY a WITH FILL INTERPOLATE (s AS %[1]s(s))",
	"SELECT * FROM numbers(%[1]s(1))", "SELECT * FROM view(SELECT %[1]s('a'))",
	"SELECT * FROM facts AS f JOIN facts AS g ON f.a = %[1]s(g.a)",
	"DESCRIBE (SELECT %[1]s('a'))", "EXPLAIN SELECT %[1]s('a')", "EXPLAIN AST SELECT arrayMap(%[1]s, ['a'])",
}

// TestEveryFunction: a function that is not allowed is refused in every place
// where its name can stand, and those that are allowed are admitted.
func TestEveryFunction(t *testing.T) {
	v := vet(t)
	var calls []string
	for name, verdict := range judge.Lists()["functions"] {
		switch verdict {
		case judge.Allowed:
			if !slices.Contains(parsersOwn, name) && !literalArgument[name] {
				args := "a, 1"
				if slices.Contains([]string{"now", "nowInBlock", "current_timestamp"}, name) {
					args = "'UTC'"
				}
				calls = append(calls, fmt.Sprintf("`%[1]s`(%[2]s), arrayMap(x -> %[1]s(%[2]s), [a])", name, args))
			}
			continue
		case judge.Operator:
			v.refuses(name, fmt.Sprintf("SELECT `%s`(1, facts)", name))
			v.refuses(name, fmt.Sprintf("SELECT arrayMap(`%s`, [1])", name))
			continue
		}
		for _, position := range positions {
			v.refuses(name, fmt.Sprintf(position, name))
		}
		v.refuses("structure", fmt.Sprintf("SELECT a FROM values('x UInt8, a String ALIAS %s(x)', (1))", name))
		v.refuses("structure", fmt.Sprintf("SELECT a FROM values('x UInt8, a String DEFAULT %s', (1))", name))
		if name != "nested" { // there is a type of that name
			v.refuses("type", fmt.Sprintf("SELECT CAST('x', 'Array(%s(1))')", name))
		}
		v.refuses(name, fmt.Sprintf("SELECT arrayReduce('%s', ['a'])", name))
		v.refuses("this form", fmt.Sprintf("SHOW TABLES WHERE %s(name) = 0", name))
		v.refuses("this form", fmt.Sprintf("SHOW COLUMNS FROM facts LIMIT %s(1)", name))
	}
	for some := range slices.Chunk(calls, 20) {
		v.admits("SELECT " + strings.Join(some, ", ") + " FROM facts")
	}
	t.Logf("%d statements are admitted, %d refused", v.admitted, v.refused)
}

// literalArgument are functions that are admitted with certain strings only.
var literalArgument = map[string]bool{
	"CAST": true, "accurateCast": true, "accurateCastOrNull": true, "accurateCastOrDefault": true, "reinterpret": true,
	"dynamicElement": true, "variantElement": true, "defaultValueOfTypeName": true, "JSONExtract": true,
	"JSONExtractCaseInsensitive": true,
	"JSONExtractKeysAndValues":   true, "JSONExtractKeysAndValuesCaseInsensitive": true, "arrayReduce": true,
	"arrayReduceInRanges":   true,
	"initializeAggregation": true, "formatRow": true, "formatRowNoNewline": true, "format": true,
}

// TestEveryAggregate: likewise of aggregate functions, with each combinator.
func TestEveryAggregate(t *testing.T) {
	v := vet(t)
	combinators := append([]string{""}, names(t, catalogue["combinators"])...)
	for name, verdict := range judge.Lists()["aggregates"] {
		var calls []string
		for _, suffix := range combinators {
			whole := name + suffix
			if verdict == judge.Allowed {
				calls = append(calls, fmt.Sprintf("`%[1]s`(a), %[1]s(1)(a), arrayReduce('%[1]s', [1]), "+
					"initializeAggregation('%[1]s(1)', 1)", whole))
				continue
			}
			for _, position := range []string{
				"SELECT %s(a) FROM facts", "SELECT %s(1)(a) FROM facts", "SELECT %s(a) OVER () FROM facts",
				"SELECT * APPLY(%s(1)) FROM facts",
				"SELECT arrayReduce('%s', [1])", "SELECT arrayReduce('%s(1)', [1])",
				"SELECT initializeAggregation('%s', 1)",
				"SELECT arrayReduceInRanges('%s', [(1, 1)], [1])",
			} {
				v.refuses(whole, fmt.Sprintf(position, whole))
			}
			v.refuses("type", fmt.Sprintf("SELECT CAST(unhex('00'), 'AggregateFunction(%s, UInt8)')", whole))
		}
		if len(calls) > 0 {
			v.admits("SELECT " + strings.Join(calls, ", ") + " FROM facts")
		}
	}
	t.Logf("%d statements are admitted, %d refused", v.admitted, v.refused)
}

// TestEveryTableFunction: likewise of table functions, wherever tables stand.
func TestEveryTableFunction(t *testing.T) {
	v := vet(t)
	arguments := map[string]string{
		"view": "SELECT 1", "values": "'a UInt8', (1)", "viewIfPermitted": "SELECT 1 ELSE null('a UInt8')",
	}
	for name, verdict := range judge.Lists()["table_functions"] {
		args := arguments[name]
		if args == "" {
			args = "1, 2"
		}
		for _, position := range []string{
			"SELECT * FROM %s(%s)", "SELECT * FROM `%s`(%s)", "SELECT * FROM facts, %s(%s)",
			"SELECT * FROM facts AS f JOIN %s(%s) AS g ON 1",
			"SELECT 1 IN (SELECT * FROM %s(%s))", "SELECT * FROM view(SELECT * FROM %s(%s))", "DESCRIBE TABLE %s(%s)",
			"EXPLAIN SELECT * FROM %s(%s)", "WITH x AS (SELECT * FROM %s(%s)) SELECT * FROM x",
			"SELECT (SELECT 1 FROM %s(%s))",
		} {
			sql := fmt.Sprintf(position, name, args)
			if verdict == judge.Allowed {
				v.admits(sql)
			} else {
				v.refuses(name, sql)
			}
		}
	}
	t.Logf("%d statements are admitted, %d refused", v.admitted, v.refused)
}

// TestEveryTable: of the engine's own tables those are read that are allowed; of
// its databases and of all kinds of tables, none is made.
func TestEveryTable(t *testing.T) {
	v := vet(t)
	for name, verdict := range judge.Lists()["system_tables"] {
		for _, position := range []string{
			"SELECT * FROM system.%s", "SELECT 1 IN system.%s", "SELECT * FROM facts AS f JOIN system.%s AS g ON 1",
			"SELECT * FROM `system`.`%s`",
			"DESCRIBE TABLE system.%s", "SHOW CREATE TABLE system.%s", "EXISTS TABLE system.%s",
			"SELECT * APPLY(x -> x IN system.%s) FROM facts",
		} {
			if sql := fmt.Sprintf(position, name); verdict == judge.Allowed {
				v.admits(sql)
			} else {
				v.refuses(name, sql)
			}
		}
	}
	for name := range judge.Lists()["table_engines"] {
		v.forbids(fmt.Sprintf("CREATE TABLE mine (a UInt8) ENGINE = %s", name))
		v.forbids(fmt.Sprintf("CREATE TEMPORARY TABLE mine (a UInt8) ENGINE = %s()", name))
	}
	for _, name := range names(t, "SELECT name FROM system.database_engines") {
		v.forbids(fmt.Sprintf("CREATE DATABASE mine ENGINE = %s", name))
	}
}

// forbids wants a statement to be no read.
func (v *vetting) forbids(sql string) {
	v.Helper()
	v.refused++
	var e *chdb.Exception
	if err := v.Vet(sql); !errors.As(err, &e) || e.Code != readOnly {
		v.Errorf("%s: %v", sql, err)
	}
}

// TestEveryType: types are named in strings, and structures are made of them.
func TestEveryType(t *testing.T) {
	v := vet(t)
	for name, verdict := range judge.Lists()["types"] {
		for _, position := range []string{
			"SELECT CAST(1, '%s')", "SELECT * FROM values('a %s, b String', (1, 2))",
			"SELECT JSONExtract('', 'Array(%s)')",
		} {
			if sql := fmt.Sprintf(position, name); verdict == judge.Allowed {
				v.admits(sql)
			} else {
				v.refuses(name, sql)
			}
		}
	}
}

// TestEverySetting: a setting is changed when it is allowed, by whatever way it
// comes, and never within a statement.
func TestEverySetting(t *testing.T) {
	v := vet(t)
	for name, verdict := range judge.Lists()["settings"] {
		allowed := verdict == judge.Allowed || verdict == judge.Limited
		if server.MayChange(name) != allowed {
			t.Errorf("setting %s: changed is %v", name, !allowed)
		}
	}
	for _, name := range names(t, "SELECT name FROM system.settings WHERE type = 'UInt64' LIMIT 100") {
		v.refuses("SETTINGS", fmt.Sprintf("SELECT 1 SETTINGS %s = 1", name))
		v.refuses("SETTINGS", fmt.Sprintf("SELECT * FROM (SELECT 1 SETTINGS %s = 1)", name))
	}
	for name, verdict := range judge.Lists()["settings"] {
		if limited := server.Limited(name); limited != (verdict == judge.Limited) {
			t.Errorf("setting %s: limited is %v", name, limited)
		}
	}
}

// TestEveryFormat: a result is written in the formats that are allowed.
func TestEveryFormat(t *testing.T) {
	v := vet(t)
	for name, verdict := range judge.Lists()["formats"] {
		for _, sql := range []string{"SELECT 1 FORMAT %s", "SELECT formatRow('%s', 1)", "SHOW TABLES FORMAT %s"} {
			if sql = fmt.Sprintf(sql, name); verdict == judge.Allowed {
				v.admits(sql)
			} else {
				v.refuses(name, sql)
			}
		}
	}
}

// TestEveryStatement: of the words that a statement can begin with, eight begin
// one that may be judged; the forms of these eight are in TestReaderMay and in
// the attacks.
func TestEveryStatement(t *testing.T) {
	reads := strings.Fields("SELECT WITH FROM SHOW DESCRIBE DESC EXPLAIN EXISTS SET USE")
	v := vet(t)
	for _, keyword := range names(t, "SELECT keyword FROM system.keywords") {
		first := strings.ToUpper(strings.Fields(keyword)[0])
		if slices.Contains(reads, first) {
			continue
		}
		for _, rest := range []string{"", " facts", " TABLE facts", " 1"} {
			err := v.Vet(keyword + rest)
			if e := (*chdb.Exception)(nil); err == nil || errors.As(err, &e) && e.Code != readOnly {
				t.Errorf("%s%s: %v", keyword, rest, err)
			}
		}
	}
}
