package clickhouse_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// call posts body to the HTTP interface with the read-write login.
func call(t testing.TB, method string, params url.Values, body string) (status int, header http.Header, text string) {
	t.Helper()
	return callAs(t, "default", password, method, params, body)
}

func callAs(t testing.TB, user, key, method string, params url.Values, body string) (int, http.Header, string) {
	t.Helper()
	target := url.URL{Scheme: "http", Host: server.HTTPAddr().String(), Path: "/", RawQuery: params.Encode()}
	req, err := http.NewRequestWithContext(testContext(t), method, target.String(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-ClickHouse-User", user)
	req.Header.Set("X-ClickHouse-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("after %d bytes: %v", len(all), err)
	}
	return resp.StatusCode, resp.Header, string(all)
}

func values(pairs ...string) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v
}

func TestHTTPResult(t *testing.T) {
	for _, c := range []struct {
		method, body string
		params       url.Values
		want         string
	}{
		{"GET", "", values("query", "SELECT 1, 'a'"), "1\ta\n"},
		{"POST", "SELECT 1", nil, "1\n"},
		{"POST", "+ 1", values("query", "SELECT 1"), "2\n"},
		{"POST", "SELECT 1 AS a FORMAT JSONEachRow", nil, "{\"a\":1}\n"},
		{"POST", "SELECT 1 AS a", values("default_format", "CSVWithNames"), "\"a\"\n1\n"},
		{
			"POST", "SELECT number FROM numbers(3) ORDER BY number DESC FORMAT TSV", values("max_block_size", "1"),
			"2\n1\n0\n",
		},
		{"POST", "SELECT {a:UInt8} + 1, {s:String}", values("param_a", "4", "param_s", "its"), "5\tits\n"},
		{"POST", "SELECT currentDatabase()", values("database", "system"), "system\n"},
		{"POST", "SELECT currentDatabase()", nil, "millrace\n"},
		{"POST", "SELECT getSetting('max_threads')", values("max_threads", "3"), "3\n"},
		{"POST", "SELECT 1 WHERE 0", nil, ""},
		{"POST", "EXISTS TABLE nothing", nil, "0\n"},
		{"POST", "EXPLAIN SYNTAX SELECT 1 + 1 AS a", nil, "SELECT 1 + 1 AS a\nFROM system.one\n"},
		{"POST", "EXISTS TABLE nothing FORMAT JSONCompactEachRow", nil, "[0]\n"},
		{"POST", "SELECT 'a;b' -- done ;", nil, "a;b\n"},
	} {
		status, _, got := call(t, c.method, c.params, c.body)
		if status != 200 || got != c.want {
			t.Errorf("%s %v %s: %d %q, want %q", c.method, c.params, c.body, status, got, c.want)
		}
	}
}

func TestHTTPErrors(t *testing.T) {
	for _, c := range []struct {
		method, body string
		params       url.Values
		status       int
		code         string
	}{
		{"POST", "SELECT * FROM no_such_table", nil, 404, "60"},
		{"POST", "SELEKT 1", nil, 400, "62"},
		{"POST", "", nil, 400, "62"},
		{"POST", "SELECT 1; SELECT 2", nil, 400, "62"},
		{"POST", "SELECT throwIf(1)", nil, 500, "395"},
		{"POST", "SELECT 1", values("no_such_setting", "1"), 404, "115"},
		{"POST", "SELECT 1 FORMAT NoSuchFormat", nil, 404, "73"},
		{"POST", "SELECT 1", values("database", "no_such_database"), 404, "81"},
		{"POST", "SELECT {a:UInt8}", nil, 500, "456"},
		{"POST", "SELECT 1", values("role", "x"), 501, "48"},
		{"POST", "SELECT 1", values("http_write_exception_in_output_format", "1"), 501, "48"},
		{"POST", "SELECT 1", values("buffer_size", "x"), 400, "36"},
		{"POST", "INSERT INTO no_such_table VALUES (1)", nil, 404, "60"},
		{"GET", "", values("query", "CREATE TABLE by_get (a UInt8) ENGINE = Memory"), 500, "164"},
		{"GET", "", values("query", "INSERT INTO by_get VALUES (1)"), 500, "164"},
		{"DELETE", "SELECT 1", nil, 501, "48"},
		{"POST", "SELECT 1", values("default_format", "Native", "client_protocol_version", "x"), 400, "36"},
	} {
		status, header, text := call(t, c.method, c.params, c.body)
		if status != c.status || header.Get("X-ClickHouse-Exception-Code") != c.code ||
			!strings.HasPrefix(text, "Code: "+c.code+". DB::Exception: ") {
			t.Errorf("%s %v %s: %d, code %s: %s", c.method, c.params, c.body, status,
				header.Get("X-ClickHouse-Exception-Code"), text)
		}
	}
}

func TestHTTPPing(t *testing.T) {
	for _, path := range []string{"/ping", "/"} {
		resp, err := http.Get("http://" + server.HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 200 || string(text) != "Ok.\n" {
			t.Errorf("%s: %d %q", path, resp.StatusCode, text)
		}
	}
}

func TestHTTPLogin(t *testing.T) {
	if status, header, _ := callAs(t, "default", "wrong", "POST", nil, "SELECT 1"); status != 403 ||
		header.Get("X-ClickHouse-Exception-Code") != "516" {
		t.Errorf("wrong password: %d", status)
	}
	resp, err := http.Get("http://default:" + password + "@" + server.HTTPAddr().String() + "/?query=SELECT+1")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("basic authorization: %d", resp.StatusCode)
	}
	resp, err = http.Get("http://" + server.HTTPAddr().String() + "/?query=SELECT+1&user=default&password=" + password)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("login in the address: %d", resp.StatusCode)
	}
	headers := map[string]string{"Authorization": "Bearer token"}
	params := values("user", "default", "password", password)
	if status, text := post(t, params, headers, "SELECT 1"); status != 403 ||
		!strings.Contains(text, "Bearer is not supported") {
		t.Errorf("a token: %d %s", status, text)
	}
}

func TestHTTPInsert(t *testing.T) {
	must := func(params url.Values, body string) string {
		t.Helper()
		status, _, text := call(t, "POST", params, body)
		if status != 200 {
			t.Fatalf("%v %.100s: %d %s", params, body, status, text)
		}
		return text
	}
	must(nil, "CREATE OR REPLACE TABLE posted (a UInt32, s String DEFAULT 'none') ENGINE = MergeTree ORDER BY a")
	must(nil, "INSERT INTO posted VALUES (1, 'x\n\ny'), (2, 'z;')")
	must(values("query", "INSERT INTO posted FORMAT JSONEachRow"), "{\"a\":3}\n\n{\"a\":4,\"s\":\"v\"}\n")
	must(nil, "INSERT INTO posted (a, s) FORMAT CSV\n5,w\n6,\"w w\"\n")
	must(values("query", "INSERT INTO posted (a) SELECT number FROM numbers(7, 2)"), "")
	must(values("query", "INSERT INTO posted FORMAT JSONEachRow"), "")
	var large strings.Builder
	for range 200_000 {
		large.WriteString("9\tlarge\n")
	}
	must(values("query", "INSERT INTO posted FORMAT TSV"), large.String())
	want := "1\tx\\n\\ny\n2\tz;\n3\tnone\n4\tv\n5\tw\n6\tw w\n7\tnone\n8\tnone\n"
	if got := must(nil, "SELECT * FROM posted WHERE a < 9 ORDER BY a"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := must(nil, "SELECT count() FROM posted WHERE a = 9"); got != "200000\n" {
		t.Error(got)
	}
}

// A document has one head and one tail, however many blocks it is made of.
func TestHTTPLargeResult(t *testing.T) {
	for _, gzip := range []string{"0", "1"} {
		_, _, text := call(t, "POST", values("enable_http_compression", gzip),
			"SELECT number AS n FROM numbers(300000) FORMAT JSONCompact")
		var doc struct {
			Rows uint64
			Data [][]json.Number
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.Rows != 300_000 ||
			len(doc.Data) != 300_000 {
			t.Errorf("gzip %s: %d rows, %v", gzip, doc.Rows, err)
		}
	}
}

// TestHTTPTotals: totals and extremes are parts of a JSON document.
func TestHTTPTotals(t *testing.T) {
	_, _, text := call(t, "POST", values("extremes", "1"),
		"SELECT number % 2 AS k, count() AS n FROM numbers(10) GROUP BY k WITH TOTALS ORDER BY k FORMAT JSONCompact")
	var doc struct {
		Data     [][]int
		Totals   []int
		Extremes struct{ Min, Max []int }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(doc); got != "{[[0 5] [1 5]] [0 10] {[0 5] [1 5]}}" {
		t.Error(got)
	}
}

// TestHTTPExceptionMidStream: behind a part of the result stands the exception,
// in the frame that the headers announce, and the response has no end.
func TestHTTPExceptionMidStream(t *testing.T) {
	target := "http://" + server.HTTPAddr().String() + "/?user=default&password=" + password
	resp, err := http.Post(target, "", strings.NewReader("SELECT number, throwIf(number = 900000, 'late') FROM "+
		"numbers(1000000)"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	tag := resp.Header.Get("X-ClickHouse-Exception-Tag")
	frame := regexp.MustCompile(`\r\n__exception__\r\n` + tag + `\r\n((?s)Code: 395\. DB::Exception: late.*\n)(\d+) ` +
		tag + `\r\n__exception__\r\n$`)
	match := frame.FindSubmatch(text)
	if err == nil || resp.StatusCode != 200 || len(tag) != 16 || match == nil {
		t.Fatalf("%d, %v, tag %q after %d bytes: %q", resp.StatusCode, err, tag, len(text),
			text[max(0, len(text)-500):])
	}
	if length, _ := strconv.Atoi(string(match[2])); length != len(match[1]) {
		t.Errorf("the exception has %d bytes, %s are announced", len(match[1]), match[2])
	}
}
