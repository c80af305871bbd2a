package clickhouse_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// coded are the ways in which a body may be coded.
var coded = map[string]struct {
	encode func(io.Writer) (io.WriteCloser, error)
	decode func(io.Reader) (io.Reader, error)
}{
	"gzip": {
		func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	},
	"deflate": {
		func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
		func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) },
	},
	"br": {
		func(w io.Writer) (io.WriteCloser, error) { return brotli.NewWriter(w), nil },
		func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil },
	},
	"zstd": {
		func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
		func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r) },
	},
}

func encode(t testing.TB, coding, text string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := coded[coding].encode(&b)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCodings: bodies and results are coded as the headers say, errors as well.
func TestCodings(t *testing.T) {
	const long = "SELECT number FROM numbers(100000)"
	_, want := sendBody(t, "default", password, nil, nil, strings.NewReader(long))
	for coding, c := range coded {
		headers := map[string]string{"Content-Encoding": coding, "Accept-Encoding": coding}
		for sql, want := range map[string]string{long: want, "SELECT 1": "1\n", "SELEKT 1": "Code: 62."} {
			params := values("enable_http_compression", "1")
			_, got := sendBody(t, "default", password, params, headers, strings.NewReader(encode(t, coding, sql)))
			r, err := c.decode(strings.NewReader(got))
			if err != nil {
				t.Fatalf("%s: %v", coding, err)
			}
			text, err := io.ReadAll(r)
			if err != nil || !strings.HasPrefix(string(text), want) || want[0] != 'C' && string(text) != want {
				t.Errorf("%s: %s: %v, %.100q", coding, sql, err, text)
			}
		}
	}
	if status, text := sendBody(t, "default", password, nil, map[string]string{"Content-Encoding": "lzma"},
		strings.NewReader("x")); status != 501 ||
		!strings.Contains(text, "lzma") {
		t.Errorf("an unknown coding: %d %s", status, text)
	}
}

// TestCodingOfAnalyst: an analyst's query is not decoded in ways that announce how
// much memory they take.
func TestCodingOfAnalyst(t *testing.T) {
	for coding := range coded {
		want := map[string]int{"gzip": 200, "deflate": 200, "br": 501, "zstd": 501}[coding]
		headers := map[string]string{"Content-Encoding": coding}
		if status, text := sendBody(t, "analyst", analystPassword, nil, headers,
			strings.NewReader(encode(t, coding, "SELECT 1"))); status != want {
			t.Errorf("%s: %d %s", coding, status, text)
		}
		bomb := encode(t, coding, "SELECT '"+strings.Repeat("x", 2<<20)+"'")
		if status, text := sendBody(t, "analyst", analystPassword, nil, headers,
			strings.NewReader(bomb)); status == 200 {
			t.Errorf("2 MiB by %s: %.100s", coding, text)
		}
	}
}

// TestFrames: ClickHouse's own frames, both ways.
func TestFrames(t *testing.T) {
	for method, name := range map[compress.Method]string{compress.LZ4: "LZ4", compress.ZSTD: "ZSTD"} {
		w := compress.NewWriter(compress.LevelZero, method)
		if err := w.Compress([]byte("SELECT number FROM numbers(300000)")); err != nil {
			t.Fatal(err)
		}
		params := values("compress", "1", "decompress", "1", "network_compression_method", name)
		_, got := sendBody(t, "default", password, params, nil, bytes.NewReader(w.Data))
		if method := got[16]; method != map[string]byte{"LZ4": 0x82, "ZSTD": 0x90}[name] {
			t.Errorf("%s: method %x", name, method)
		}
		text, err := io.ReadAll(compress.NewReader(strings.NewReader(got)))
		if rows := bytes.Count(text, []byte("\n")); rows != 300_000 {
			t.Errorf("%s: %d rows, %v", name, rows, err)
		}
	}
}

// raw gets the response to a statement and how it ends.
func raw(t testing.TB, user, key string, params url.Values, sql string) (*http.Response, string, error) {
	t.Helper()
	return exchange(t, params, map[string]string{"X-ClickHouse-User": user, "X-ClickHouse-Key": key}, sql)
}

// TestWaitEndOfQuery: the status waits for the whole result, whose summary is
// complete.
func TestWaitEndOfQuery(t *testing.T) {
	params := values("wait_end_of_query", "1")
	resp, text, err := raw(t, "default", password, params,
		"SELECT number, throwIf(number = 900000, 'late') FROM numbers(1000000)")
	if err != nil || resp.StatusCode != 500 || !strings.HasPrefix(text, "Code: 395.") {
		t.Errorf("%d, %v: %.200s", resp.StatusCode, err, text)
	}
	resp, text, err = raw(t, "default", password, params, "SELECT number FROM numbers(1000000)")
	if err != nil || resp.StatusCode != 200 || strings.Count(text, "\n") != 1_000_000 {
		t.Errorf("%d, %v: %d bytes", resp.StatusCode, err, len(text))
	}
	resp, text, err = raw(t, "analyst", analystPassword, params, "SELECT repeat('x', 1000) FROM numbers(100000)")
	if err != nil || resp.StatusCode != 500 || !strings.HasPrefix(text, "Code: 396.") {
		t.Errorf("an analyst's result of 100 MB: %d, %v: %.200s", resp.StatusCode, err, text)
	}
}

// TestResponseBuffer: a client may have the status, and blocks of Native, sooner.
func TestResponseBuffer(t *testing.T) {
	const sql = "SELECT throwIf(number = 3, 'late'), sleepEachRow(0.2) FROM system.numbers FORMAT Native"
	for size, want := range map[string]int{"1": 200, "": 500} {
		resp, text, _ := raw(t, "default", password, values("http_response_buffer_size", size, "max_block_size", "1",
			"max_threads", "1"), sql)
		if resp.StatusCode != want || !strings.Contains(text, "late") {
			t.Errorf("buffer of %q: %d %q", size, resp.StatusCode, text)
		}
	}
}
