package clickhouse

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzHTTPRequest: whatever parameters and body say, the format named to the
// engine is a word, and parameters of the address do not become settings.
func FuzzHTTPRequest(f *testing.F) {
	f.Add("query=SELECT+1&param_a=b&max_threads=1", "")
	f.Add("compress=1&decompress=1", "\x00\x01")
	f.Add("default_format=JSON;DROP", "SELECT 1 FORMAT Native")
	f.Fuzz(func(t *testing.T, query, body string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.URL.RawQuery = query
		req, err := readRequest(r, reader, nil)
		if err != nil {
			return
		}
		if !identifier.MatchString(req.result.format) || req.id == "" {
			t.Fatalf("format %q, id %q", req.result.format, req.id)
		}
		for name := range req.settings {
			if reserved[name] || strings.HasPrefix(name, "param_") {
				t.Fatalf("%q is taken for a setting", name)
			}
		}
	})
}
