package clickhouse_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

func analyst(t *testing.T) driver.Conn {
	opt := options(ch.CompressionLZ4)
	opt.Auth.Username, opt.Auth.Password = "analyst", analystPassword
	return open(t, opt)
}

func prepareSecrets(t *testing.T) {
	conn := client(t)
	for _, sql := range []string{
		"CREATE OR REPLACE TABLE facts (a UInt32, s String) ENGINE = MergeTree ORDER BY a",
		"INSERT INTO facts SELECT number, toString(number % 7) FROM numbers(1000)",
		"CREATE OR REPLACE VIEW facts_view AS SELECT s, count() AS n FROM facts GROUP BY s",
		"CREATE OR REPLACE FUNCTION readf AS x -> file(x)",
		"CREATE OR REPLACE VIEW file_view AS SELECT * FROM file('/etc/hostname', 'LineAsString')",
	} {
		exec(t, conn, sql)
	}
}

// statements are those of a file under testdata, one a line.
func statements(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line != "" && line[0] != '#' {
			all = append(all, line)
		}
	}
	return all
}

func TestReaderMay(t *testing.T) {
	prepareSecrets(t)
	conn := analyst(t)
	for _, sql := range statements(t, "ordinary.sql") {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, sql)
		if status != 200 {
			t.Errorf("%s: %d %s", sql, status, text)
		}
		if err := conn.Exec(testContext(t), sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

func TestReaderMayNot(t *testing.T) {
	prepareSecrets(t)
	conn := analyst(t)
	for _, sql := range statements(t, "attacks.sql") {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, sql)
		if status == 200 {
			t.Errorf("HTTP: %s: %s", sql, text)
		}
		var e *ch.Exception
		if err := conn.Exec(testContext(t), sql); !errors.As(err, &e) || e.Code == 202 {
			t.Errorf("native: %s: %v", sql, err)
		}
	}
	if got := count(t, client(t), "SELECT count() FROM facts"); got != 1000 {
		t.Error(got, "facts left")
	}
	for _, p := range []string{"default./etc/hostname", "default.`/etc/hostname`"} {
		status, _, text := callAs(t, "analyst", analystPassword, "POST", values("param_t", p),
			"SELECT * FROM {t:Identifier}")
		if status == 200 {
			t.Errorf("parameter %s: %s", p, text)
		}
	}
	if status, _, text := callAs(t, "analyst", analystPassword, "POST", values("param_f", "file"),
		"SELECT arrayMap({f:Identifier}, ['/etc/hostname'])"); status == 200 {
		t.Errorf("a function as a parameter: %s", text)
	}
	for _, sql := range []string{
		"SELECT {n:UInt8}, _CAST(1, 'UInt8')", "SELECT _CAST({n:UInt8}, 'UInt8')",
		"SELECT arrayMap(_CAST, [{n:UInt8}], ['UInt8'])",
	} {
		if status, _, text := callAs(t, "analyst", analystPassword, "POST", values("param_n", "7"),
			sql); status == 200 {
			t.Errorf("%s: %s", sql, text)
		}
	}
	for name, value := range map[string]string{"format_schema": "x", "database": "default", "async_insert": "1"} {
		if status, _, _ := callAs(t, "analyst", analystPassword, "POST", values(name, value),
			"SELECT 1"); status == 200 {
			t.Errorf("parameter %s=%s", name, value)
		}
	}
	if status, _, text := callAs(t, "analyst", analystPassword, "POST", values("database", "default"),
		"SELECT * FROM `/etc/hostname`"); status == 200 {
		t.Error(text)
	}
}

// TestReaderParameters: values of parameters are of whatever type is asked for.
func TestReaderParameters(t *testing.T) {
	prepareSecrets(t)
	for sql, want := range map[string]string{
		"SELECT count() FROM facts WHERE a < {n:UInt32}":                  "7\n",
		"SELECT {n:UInt8} + {n:Int64}, {s:String}, {s:Nullable(String)}":  "14\t[1]\t[1]\n",
		"SELECT count() FROM {t:Identifier} WHERE a IN {s:Array(UInt32)}": "1\n",
	} {
		params := values("param_n", "7", "param_s", "[1]", "param_t", "facts")
		if status, _, got := callAs(t, "analyst", analystPassword, "POST", params, sql); status != 200 || got != want {
			t.Errorf("%s: %d %s", sql, status, got)
		}
	}
}

// TestRefusal: the error names what is refused, for whom, and where the rules are.
func TestRefusal(t *testing.T) {
	const want = "Not enough privileges: function file is not allowed for the login analyst; docs/analysts.md " +
		"lists what is"
	if status, _, text := callAs(t, "analyst", analystPassword, "POST", nil,
		"SELECT file('/etc/hostname')"); status != 403 || !strings.Contains(text, want) {
		t.Errorf("HTTP: %d %s", status, text)
	}
	var e *ch.Exception
	if err := analyst(t).Exec(testContext(t), "SELECT file('/etc/hostname')"); !errors.As(err, &e) ||
		e.Code != accessDenied || !strings.Contains(e.Message, want) {
		t.Errorf("native: %v", err)
	}
}

// TestMutated: ordinary statements in which a word has given way to an attack do
// not show what is in a file.
func TestMutated(t *testing.T) {
	prepareSecrets(t)
	const mutations = 500
	const content = "what nobody may read"
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := count(t, client(t), "SELECT toUInt64(count()) FROM file('"+secret+"', 'LineAsString')"); got != 1 {
		t.Fatal("the server cannot read the file in any way")
	}
	instead := []string{
		"file", "`file`", "readf", "'file'", "file('%s')", "readf('%s')", "file('%s') AS file",
		"arrayMap(file, ['%s'])", "arrayMap(x -> readf(x), ['%s'])",
		"default.`%s`", "file('%s', 'LineAsString')", "(SELECT * FROM default.`%s`)", `'x String ALIAS file(\'%s\')'`,
	}
	seed := time.Now().UnixNano()
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	words := regexp.MustCompile("[A-Za-z_][A-Za-z_0-9]*|'[^']*'|[0-9]+")
	texts := regexp.MustCompile("'[^']*'")
	ordinary := statements(t, "ordinary.sql")
	admitted := 0
	for range mutations {
		sql := ordinary[random.IntN(len(ordinary))]
		if random.IntN(2) == 0 {
			sql = texts.ReplaceAllLiteralString(sql, "'"+secret+"'")
		}
		all := words.FindAllStringIndex(sql, -1)
		at := all[random.IntN(len(all))]
		sql = sql[:at[0]] + strings.ReplaceAll(instead[random.IntN(len(instead))], "%s", secret) + sql[at[1]:]
		status, _, text := callAs(t, "analyst", analystPassword, "POST", nil, sql)
		if strings.Contains(text, content) {
			t.Errorf("seed %d: %s: %s", seed, sql, text)
		}
		if status == 200 {
			admitted++
		}
	}
	t.Logf("of %d statements %d are admitted", mutations, admitted)
}

func TestReaderLimits(t *testing.T) {
	ask := func(name string, params ...string) string {
		_, _, text := callAs(t, "analyst", analystPassword, "POST", values(params...),
			"SELECT value FROM system.settings WHERE name = '"+name+"'")
		return strings.TrimSpace(text)
	}
	for _, c := range [][3]string{
		{"max_execution_time", "0", "120"},
		{"max_execution_time", "7", "7"},
		{"max_execution_time", "9000", "120"},
		{"readonly", "0", "1"},
		{"max_memory_usage", "0", "536870912"},
	} {
		if got := ask(c[0], c[0], c[1]); got != c[2] {
			t.Errorf("%s=%s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestReaderSession(t *testing.T) {
	opt := options(ch.CompressionNone)
	opt.Auth.Username, opt.Auth.Password, opt.MaxOpenConns = "analyst", analystPassword, 1
	conn := open(t, opt)
	exec(t, conn, "SET max_threads = 3, log_comment = 'it\\'s; x'")
	if got := count(t, conn, "SELECT toUInt64(getSetting('max_threads') + (getSetting('log_comment') = 'it\\'s; x'))"); got != 4 {
		t.Error(got)
	}
	exec(t, conn, "USE INFORMATION_SCHEMA")
	if got := count(t, conn, "SELECT count() FROM schemata WHERE schema_name = 'millrace'"); got != 1 {
		t.Error(got)
	}
}
