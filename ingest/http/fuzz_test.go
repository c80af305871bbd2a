package ingesthttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http/httptest"
	"testing"
)

// FuzzBatch: of whatever body, each item is one JSON text, none is made up, and
// what a body expands to is bounded.
func FuzzBatch(f *testing.F) {
	f.Add([]byte(`{"events":[{"article_url":"https://example.com/1"},{},null,7]}`), false)
	f.Add([]byte("{\"a\":1}\n\n  {\"b\":2}\r\n{"), false)
	var zip bytes.Buffer
	w := gzip.NewWriter(&zip)
	_, _ = w.Write([]byte(`{"events":[]}`))
	_ = w.Close()
	f.Add(zip.Bytes(), true)
	f.Fuzz(func(t *testing.T, data []byte, zipped bool) {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(data))
		if zipped {
			r.Header.Set("Content-Encoding", "gzip")
		}
		body, problem := readBody(r)
		if problem != nil {
			return
		}
		if len(body) > MaxBody || !zipped && !bytes.Equal(body, data) {
			t.Fatalf("a body of %d bytes of %d sent", len(body), len(data))
		}
		items, problem := splitBatch(body)
		for _, item := range items {
			if problem != nil || !json.Valid(item) || !bytes.Contains(body, item) {
				t.Fatalf("item %q, %v", item, problem)
			}
		}
		for _, line := range splitLines(body) {
			if len(line) == 0 || bytes.ContainsRune(line, '\n') || !bytes.Contains(body, line) {
				t.Fatalf("line %q", line)
			}
		}
	})
}
