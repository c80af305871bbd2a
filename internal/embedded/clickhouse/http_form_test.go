package clickhouse_test

import (
	"bytes"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// part is a field of a form, or one of its files.
type part struct {
	name, value string
	file        bool
}

// send posts a form and returns the answer.
func send(t testing.TB, user, key string, params url.Values, parts ...part) (int, string) {
	t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, p := range parts {
		create := w.CreateFormField
		if p.file {
			create = func(name string) (io.Writer, error) { return w.CreateFormFile(name, "") }
		}
		to, err := create(p.name)
		if err == nil {
			_, err = io.WriteString(to, p.value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sendBody(t, user, key, params, map[string]string{"Content-Type": w.FormDataContentType()}, &body)
}

// sendBody posts a body of a login with headers.
func sendBody(t testing.TB, user, key string, params url.Values, headers map[string]string,
	body io.Reader,
) (int, string) {
	t.Helper()
	all := map[string]string{"X-ClickHouse-User": user, "X-ClickHouse-Key": key}
	maps.Copy(all, headers)
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return post(t, params, all, string(text))
}

// post posts a body with headers.
func post(t testing.TB, params url.Values, headers map[string]string, body string) (int, string) {
	t.Helper()
	resp, text, err := exchange(t, params, headers, body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}

// exchange posts a body, and returns the answer and how its body ends.
func exchange(t testing.TB, params url.Values, headers map[string]string, body string) (*http.Response, string, error) {
	t.Helper()
	target := url.URL{Scheme: "http", Host: server.HTTPAddr().String(), Path: "/", RawQuery: params.Encode()}
	req, err := http.NewRequestWithContext(testContext(t), "POST", target.String(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

func TestForm(t *testing.T) {
	field := func(name, value string) part { return part{name: name, value: value} }
	file := func(name, value string) part { return part{name, value, true} }
	for name, c := range map[string]struct {
		params url.Values
		parts  []part
		want   string
	}{
		"statement and parameters": {nil, []part{
			field("query", "SELECT {a:UInt8} + 1, {s:String}"),
			field("param_a", "4"), field("param_s", "it's"),
		}, "5\tit\\'s\n"},
		"statement in the address": {values("query", "SELECT {a:UInt8}"), []part{field("param_a", "7")}, "7\n"},
		"statement in both":        {values("query", "SELECT 1"), []part{field("query", "+ 1")}, "2\n"},
		"parameter in both": {
			values("param_a", "1"),
			[]part{field("query", "SELECT {a:UInt8}"), field("param_a", "2")},
			"1\n",
		},
		"settings in the address": {
			values("max_threads", "3"),
			[]part{field("query", "SELECT getSetting('max_threads')")},
			"3\n",
		},
		"table by structure": {
			values("ext_structure", "a UInt8, s String"),
			[]part{field("query", "SELECT s FROM ext ORDER BY a DESC"), file("ext", "1\tone\n2\ttwo\n")},
			"two\none\n",
		},
		"table by types": {
			nil, []part{
				file("ext", "1\t[2,3]\n"), field("ext_types", "UInt8,Array(Decimal(9, 2))"),
				field("query", "SELECT _2[2] + _1 FROM ext"),
			}, "4\n",
		},
		"table in a format": {
			values("ext_structure", "a UInt8", "ext_format", "JSONEachRow"),
			[]part{field("query", "SELECT sum(a) FROM ext"), file("ext", `{"a":1} {"a":5}`)},
			"6\n",
		},
		"two tables": {
			values("x_types", "UInt8", "y_types", "UInt8"),
			[]part{
				field("query", "SELECT count() FROM x WHERE _1 IN (SELECT _1 FROM y)"), file("x", "1\n2\n3\n"),
				file("y", "2\n3\n4\n"),
			},
			"2\n",
		},
		"empty table": {values("ext_types", "UInt8"), []part{
			field("query", "SELECT count() FROM ext"),
			file("ext", ""),
		}, "0\n"},
	} {
		if status, got := send(t, "default", password, c.params, c.parts...); status != 200 || got != c.want {
			t.Errorf("%s: %d %q, want %q", name, status, got, c.want)
		}
	}
	if status, text := send(t, "default", password, nil, field("query", "SELECT * FROM ext")); status != 404 {
		t.Errorf("an external table is there for another request: %d %s", status, text)
	}
	for name, c := range map[string]struct {
		status int
		code   string
		parts  []part
	}{
		"unknown field":       {400, "36", []part{field("query", "SELECT 1"), field("max_threads", "1")}},
		"field twice":         {400, "36", []part{field("query", "SELECT 1"), field("query", "+ 1")}},
		"table without types": {400, "36", []part{field("query", "SELECT 1"), file("ext", "1\n")}},
		"broken rows": {400, "27", []part{
			field("query", "SELECT 1"), file("ext", "x\n"),
			field("ext_types", "UInt8"),
		}},
		"unknown type": {404, "50", []part{
			field("query", "SELECT 1"), file("ext", "x\n"),
			field("ext_types", "NoType"),
		}},
	} {
		if status, text := send(t, "default", password, nil, c.parts...); status != c.status ||
			!strings.HasPrefix(text, "Code: "+c.code+".") {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	headers := map[string]string{"Content-Type": "multipart/form-data"}
	if status, text := sendBody(t, "default", password, nil, headers, strings.NewReader("SELECT 1")); status != 400 ||
		!strings.Contains(text, "boundary") {
		t.Errorf("without a boundary: %d %s", status, text)
	}
}

// TestFormOfAnalyst: a form is no way round what analysts may not do.
func TestFormOfAnalyst(t *testing.T) {
	prepareSecrets(t)
	const content = "what nobody may read"
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	field := func(name, value string) part { return part{name: name, value: value} }
	ask := func(params url.Values, parts ...part) (int, string) {
		t.Helper()
		status, text := send(t, "analyst", analystPassword, params, parts...)
		if strings.Contains(text, content) {
			t.Errorf("%v %v: %s", params, parts, text)
		}
		return status, text
	}
	if status, text := ask(nil, field("query", "SELECT count() FROM facts WHERE a < {n:UInt32}"),
		field("param_n", "7")); status != 200 || text != "7\n" {
		t.Errorf("an ordinary form: %d %s", status, text)
	}
	for _, sql := range statements(t, "attacks.sql") {
		if status, text := ask(nil, field("query", sql)); status == 200 {
			t.Errorf("%s: %s", sql, text)
		}
		half := len(sql) / 2
		if status, text := ask(values("query", "SELECT 1 UNION ALL "), field("query", sql)); status == 200 && half > 0 {
			t.Errorf("behind the address: %s: %s", sql, text)
		}
	}
	file := "default.`" + secret + "`"
	for name, c := range map[string]struct {
		params url.Values
		parts  []part
	}{
		"a file as a parameter": {nil, []part{field("query", "SELECT * FROM {t:Identifier}"), field("param_t", file)}},
		"parameters in both places": {
			values("param_t", "no_such_table"), []part{
				field("query", "SELECT * FROM {t:Identifier}"),
				field("param_t", file),
			},
		},
		"a parameter twice": {nil, []part{
			field("query", "SELECT * FROM {t:Identifier}"), field("param_t", file),
			field("param_t", "facts"),
		}},
		"a database":        {nil, []part{field("query", "SELECT 1"), field("database", "default")}},
		"a setting":         {nil, []part{field("query", "SELECT 1"), field("readonly", "0")}},
		"a login":           {nil, []part{field("query", "SELECT 1"), field("user", "default")}},
		"an external table": {values("ext_types", "UInt8"), []part{field("query", "SELECT 1"), {"ext", "1\n", true}}},
		"an external table that reads": {
			values("ext_structure", "a UInt8, b String DEFAULT file('"+secret+"')"),
			[]part{field("query", "SELECT b FROM ext"), {"ext", "1\n", true}},
		},
		"an external table over another": {
			values("facts_types", "UInt8"),
			[]part{field("query", "SELECT * FROM facts"), {"facts", "1\n", true}},
		},
		"an external table's statement": {nil, []part{{
			"query", "SELECT * FROM file('" + secret + "', 'LineAsString')",
			true,
		}}},
		"a table's fields without it": {values("ext_structure", "a UInt8"), []part{field("query", "SELECT 1")}},
	} {
		if status, text := ask(c.params, c.parts...); status == 200 {
			t.Errorf("%s: %s", name, text)
		}
	}
	if status, text := ask(nil, field("query", "SELECT 1"),
		field("param_s", strings.Repeat("x", 1<<20))); status != 413 {
		t.Errorf("a long parameter: %d %s", status, text)
	}
}

// TestFormRefused: when one of a statement's tables cannot be made, the session
// keeps none of them, and loses none of its own.
func TestFormRefused(t *testing.T) {
	ask := func(sql string) (int, string) {
		status, _, text := call(t, "POST", values("session_id", "refused"), sql)
		return status, text
	}
	ask("CREATE TEMPORARY TABLE own (n UInt64)")
	ask("INSERT INTO own SELECT 7")
	params := values("session_id", "refused", "sent_first_types", "UInt8", "own_types", "UInt8")
	status, text := send(t, "default", password, params, part{"query", "SELECT 1", false},
		part{"sent_first", "1\n", true}, part{"own", "1\n", true})
	if status == 200 || !strings.Contains(text, "TABLE_ALREADY_EXISTS") {
		t.Errorf("a table of a name that is taken: %d %s", status, text)
	}
	if _, text := ask("SELECT sum(n) FROM own"); text != "7\n" {
		t.Errorf("the session's own table: %s", text)
	}
	if status, text := ask("SELECT * FROM sent_first"); status != 404 {
		t.Errorf("the table before it: %d %s", status, text)
	}
}
