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
		body, problem := readBody(r, new(held).part())
		if problem != nil {
			return
		}
		if len(body) > MaxBody || !zipped && !bytes.Equal(body, data) {
			t.Fatalf("a body of %d bytes of %d sent", len(body), len(data))
		}
		items, problem := splitBatch(body)
		var want struct{ Events []json.RawMessage }
		if err := json.Unmarshal(body, &want); (err == nil) != (problem == nil) ||
			problem == nil && len(items) != min(len(want.Events), MaxEvents+1) {
			t.Fatalf("%d items, %v; encoding/json reads %d, %v", len(items), problem, len(want.Events), err)
		}
		for _, item := range items {
			if problem != nil || !json.Valid(item) || !bytes.Contains(body, item) {
				t.Fatalf("item %q, %v", item, problem)
			}
		}
		lines := splitLines(body)
		if n := len(bytes.FieldsFunc(body, func(r rune) bool { return r == '\n' })); len(lines) > min(n, MaxEvents+1) {
			t.Fatalf("%d lines of %d", len(lines), n)
		}
		for _, line := range lines {
			if len(line) == 0 || bytes.ContainsRune(line, '\n') || !bytes.Contains(body, line) {
				t.Fatalf("line %q", line)
			}
		}
	})
}
