package statement

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, verb, want, format string }{
		{"select 1", "SELECT", "select 1", ""},
		{"select 1;", "SELECT", "select 1", ""},
		{" -- hello\n select 1 /* x ; */ ; ", "SELECT", "select 1", ""},
		{"SELECT 1 FORMAT JSON", "SELECT", "SELECT 1", "JSON"},
		{"SELECT 1 FORMAT JSON SETTINGS a=1", "SELECT", "SELECT 1 SETTINGS a=1", "JSON"},
		{"SELECT 1 AS format", "SELECT", "SELECT 1 AS format", ""},
		{"SELECT format FROM t", "SELECT", "SELECT format FROM t", ""},
		{"SELECT (select 1 format) x", "SELECT", "SELECT (select 1 format) x", ""},
		{"(SELECT 1) FORMAT CSV", "SELECT", "(SELECT 1)", "CSV"},
		{
			"with 1 as x select x, ';', \"a;b\", 'it''s;', 'b\\';'", "SELECT",
			"with 1 as x select x, ';', \"a;b\", 'it''s;', 'b\\';'", "",
		},
		{"select $a$ ; $a$", "SELECT", "select $a$ ; $a$", ""},
		{"create table t (a int) engine=Memory", "CREATE", "create table t (a int) engine=Memory", ""},
		{"insert into t select 1", "INSERT", "insert into t select 1", ""},
		{"insert into t (a) (select 1)", "INSERT", "insert into t (a) (select 1)", ""},
	} {
		s, err := Parse(c.text)
		if err != nil || s.Verb != c.verb || s.Text != c.want || s.Format != c.format || s.Insert != nil {
			t.Errorf("%q: %+v, %v", c.text, s, err)
		}
	}
}

func TestParseInsert(t *testing.T) {
	for _, c := range []struct {
		text string
		want Insert
	}{
		{"INSERT INTO t (a, `b c`) VALUES", Insert{"INSERT INTO t (a, `b c`)", "t", "a, `b c`", "", "Values", ""}},
		{"insert into db.`t` FORMAT Native", Insert{"insert into db.`t`", "db.`t`", "", "", "Native", ""}},
		{"insert into t", Insert{"insert into t", "t", "", "", "Values", ""}},
		{
			"insert into t settings a=1, b='values' values (1);",
			Insert{"insert into t", "t", "", "a=1, b='values'", "Values", " (1);"},
		},
		{"insert into t(a)format CSV\n\n1", Insert{"insert into t(a)", "t", "a", "", "CSV", "\n1"}},
		{
			"insert into table t (* except(a)) format JSONEachRow {}",
			Insert{"insert into table t (* except(a))", "t", "* except(a)", "", "JSONEachRow", "{}"},
		},
		{
			"insert into function null('a int, b text') (a) format CSV 1\n",
			Insert{"insert into function null('a int, b text') (a)", "null('a int, b text')", "a", "", "CSV", "1\n"},
		},
		{
			"INSERT INTO TABLE FUNCTION file('x', CSV) VALUES (1)",
			Insert{"INSERT INTO TABLE FUNCTION file('x', CSV)", "file('x', CSV)", "", "", "Values", " (1)"},
		},
		{
			"insert into {d:Identifier}.{t:Identifier} (a) values",
			Insert{
				"insert into {d:Identifier}.{t:Identifier} (a)", "{d:Identifier}.{t:Identifier}", "a", "", "Values",
				"",
			},
		},
	} {
		s, err := Parse(c.text)
		if err != nil || s.Insert == nil || *s.Insert != c.want {
			t.Errorf("%q: %+v, %v", c.text, s.Insert, err)
		}
	}
}

// TestParseSent: what a log is to show has no data of an INSERT in it.
func TestParseSent(t *testing.T) {
	for text, want := range map[string]string{
		" SELECT 1 \nFORMAT JSON ; ":               "SELECT 1 \nFORMAT JSON",
		"INSERT INTO t FORMAT CSV\n1,2":            "INSERT INTO t FORMAT CSV\n",
		"-- c\nINSERT INTO t (a) VALUES (1), (2);": "INSERT INTO t (a) VALUES",
		"INSERT INTO t;":                           "INSERT INTO t",
		"INSERT INTO t\n":                          "INSERT INTO t",
		"INSERT INTO t SELECT 1":                   "INSERT INTO t SELECT 1",
	} {
		if s, err := Parse(text); err != nil || s.Sent != want {
			t.Errorf("%q: %q, %v", text, s.Sent, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]error{
		"":                          ErrEmpty,
		" ; -- nothing":             ErrEmpty,
		"select 1; drop table t":    ErrMultiple,
		"select 1 into outfile 'x'": ErrOutfile,
		"insert into t from infile 'x' format CSV": ErrOutfile,
	} {
		if _, err := Parse(text); !errors.Is(err, want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"select 1; select 2", "insert into t (a) values (1)", "$a$", "'\\", "/*", "insert into",
		"(", ")", "a)format b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err == nil && s.Insert == nil && s.Text == "" {
			t.Errorf("%q has no text", text)
		}
	})
}

// FuzzParseSet: names of settings are words, and values are read as the engine
// writes them.
func FuzzParseSet(f *testing.F) {
	f.Add("max_threads", "3", "SET a = 1, b = 'x'")
	f.Add("log_comment", `it's \'; x\\`, "SET a = -1.5e3 , b = ''''")
	for _, broken := range []string{
		"SET a = '", `SET a = 'b\'`, "SET a = $b$c$b$", "SET a = -'b'", "SET a =",
		"SET a = 'b'c",
	} {
		if set, err := ParseSet(broken); err == nil {
			f.Errorf("%s is read as %q", broken, set)
		}
		f.Add("a", "1", broken)
	}
	f.Fuzz(func(t *testing.T, name, value, text string) {
		if set, err := ParseSet(text); err == nil {
			for name := range set {
				if name == "" || strings.ContainsAny(name, " ,='\"`;") {
					t.Fatalf("%q sets %q", text, name)
				}
			}
		}
		if !plainName.MatchString(name) || name == "other" || strings.ContainsRune(value, 0) {
			return
		}
		written := "SET " + name + " = '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "', other = 7"
		set, err := ParseSet(written)
		if err != nil || set[name] != value || set["other"] != "7" {
			t.Fatalf("%q sets %q, %v", written, set, err)
		}
	})
}

var plainName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)
