package clickhouse_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// summary is what a response's header says of a statement.
func summary(t testing.TB, name string, header http.Header) map[string]json.Number {
	t.Helper()
	var all map[string]json.Number
	if err := json.Unmarshal([]byte(header.Get(name)), &all); err != nil {
		t.Fatalf("%s: %q: %v", name, header.Get(name), err)
	}
	return all
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		sql, body string
		want      map[string]json.Number
	}{
		{"CREATE OR REPLACE TABLE summed (a UInt32) ENGINE = MergeTree ORDER BY a", "", nil},
		{"INSERT INTO summed FORMAT TSV", "1\n2\n3\n", map[string]json.Number{
			"written_rows":  "3",
			"written_bytes": "12",
		}},
		{
			"INSERT INTO summed SELECT number FROM numbers(7)", "",
			map[string]json.Number{"read_rows": "7", "written_rows": "7", "written_bytes": "28"},
		},
		{"SELECT a FROM summed FORMAT TSV", "", map[string]json.Number{
			"read_rows": "10", "read_bytes": "40",
			"result_rows": "10",
		}},
		{"SELECT throwIf(a = 2) FROM summed", "", nil},
	} {
		_, header, _ := call(t, "POST", values("query", c.sql), c.body)
		got := summary(t, "X-ClickHouse-Summary", header)
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s: %s is %s, want %s", c.sql, name, got[name], want)
			}
		}
		for _, name := range []string{
			"read_rows", "read_bytes", "written_rows", "written_bytes", "total_rows_to_read",
			"result_rows", "result_bytes",
		} {
			if _, ok := got[name]; !ok {
				t.Errorf("%s: the summary has no %s", c.sql, name)
			}
		}
		if elapsed, _ := got["elapsed_ns"].Int64(); elapsed <= 0 {
			t.Errorf("%s: it took %s ns", c.sql, got["elapsed_ns"])
		}
	}
}

// TestProgressHeaders: a client that asks for it hears how far a statement has got.
func TestProgressHeaders(t *testing.T) {
	const sql = "SELECT count() FROM numbers(10) WHERE NOT ignore(sleepEachRow(0.1))"
	params := values("send_progress_in_http_headers", "1", "http_headers_progress_interval_ms", "100", "max_block_size",
		"1")
	for login, key := range map[string]string{"default": password, "analyst": analystPassword} {
		status, header, text := callAs(t, login, key, "POST", withoutSettings(login, params), sql)
		if status != 200 || text != "10\n" {
			t.Fatalf("%s: %d %s", login, status, text)
		}
		if login == "default" && len(header.Values("X-ClickHouse-Progress")) < 3 {
			t.Errorf("progress: %q", header.Values("X-ClickHouse-Progress"))
		}
	}
}

// TestProgressFormat: the events of such a format are sent as they come, with the
// status before an exception that follows them.
func TestProgressFormat(t *testing.T) {
	const sql = "SELECT throwIf(number = 10), sleepEachRow(0.01) FROM system.numbers LIMIT 100"
	params := values("max_block_size", "1", "user", "default", "password", password)
	for format, want := range map[string]int{"JSONEachRowWithProgress": 200, "JSONEachRow": 500} {
		resp, err := http.Post("http://"+server.HTTPAddr().String()+"/?"+params.Encode(), "",
			strings.NewReader(sql+" FORMAT "+format))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || !strings.Contains(string(text), "Code: 395") {
			t.Errorf("%s: %d %s", format, resp.StatusCode, text)
		}
		if cut := strings.Contains(string(text), "__exception__"); cut != (want == 200) || cut != (err != nil) {
			t.Errorf("%s: ends with %v: %s", format, err, text)
		}
	}
}

// TestProgressComesFirst: how much was read is said before the columns, as a server
// does.
func TestProgressComesFirst(t *testing.T) {
	for _, format := range []string{
		"JSONEachRowWithProgress", "JSONCompactEachRowWithProgress",
		"JSONStringsEachRowWithProgress",
	} {
		for range 20 {
			_, _, text := call(t, "POST", nil,
				"SELECT number % 3 AS k, count() FROM numbers(100) GROUP BY k WITH TOTALS ORDER BY k FORMAT "+format)
			lines := strings.Split(strings.TrimSpace(text), "\n")
			kinds := make([]string, len(lines))
			for i, line := range lines {
				var event map[string]json.RawMessage
				if err := json.Unmarshal([]byte(line), &event); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				for kind := range event {
					kinds[i] = kind
				}
			}
			got := strings.Join(kinds, " ")
			if !strings.HasPrefix(got, "progress meta row row row ") ||
				!strings.Contains(lines[0], `"read_rows":"100"`) {
				t.Fatalf("%s: %s", format, text)
			}
		}
	}
}

// TestNoDelay: a setting with which the engine would never end a statement is refused.
func TestNoDelay(t *testing.T) {
	for _, c := range []struct{ delay, sql string }{
		{"0", "SELECT 1"}, {"", "SELECT 1 SETTINGS interactive_delay = 0"}, {"", "SET interactive_delay = 0"},
	} {
		params := values()
		if c.delay != "" {
			params = values("interactive_delay", c.delay)
		}
		if status, header, text := call(t, "POST", params, c.sql); header.Get("X-ClickHouse-Exception-Code") != "452" {
			t.Errorf("%s: %d %s", c.sql, status, text)
		}
	}
}

// TestCompressionMethod: the engine knows the setting that decides the compression.
func TestCompressionMethod(t *testing.T) {
	status, _, text := call(t, "POST", values("network_compression_method", "ZSTD"),
		"SELECT getSetting('network_compression_method')")
	if status != 200 || text != "ZSTD\n" {
		t.Errorf("%d %s", status, text)
	}
}

func withoutSettings(login string, params url.Values) url.Values {
	if login == "analyst" {
		return values("send_progress_in_http_headers", "1")
	}
	return params
}
