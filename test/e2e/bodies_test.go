package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// testBodies: what is too large is refused, and what has no end is cut off.
func testBodies(t *testing.T, s *server) {
	writer := token(t, "events:write")
	if status, _ := s.with(t, writer, http.MethodPost, "/events",
		strings.Repeat(" ", 20<<20)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("20 MB: status %d, want 413", status)
	}
	endless := &http.Request{
		Method: http.MethodPost, URL: mustParse(t, s.url(api+"/events/batch")), Body: io.NopCloser(spaces{}),
		Header: http.Header{"Authorization": {"Bearer " + writer}, "Content-Type": {"application/x-ndjson"}},
	}
	resp, err := http.DefaultClient.Do(endless.WithContext(t.Context()))
	if err == nil { // else it is cut off without an answer, which is as good
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a body without end: %s, want 413", resp.Status)
		}
	}
	for name, c := range oddBodies(t) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url(api+c.path), bytes.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{
			"Authorization": {"Bearer " + writer}, "Content-Type": {c.kind},
			"Content-Encoding": {c.encoding},
		}
		resp, err := http.DefaultClient.Do(req)
		status, _, answer := s.read(resp, err)
		mustRefuse(t, status, answer, c.field, c.code)
		if status != c.want {
			t.Errorf("%s: status %d, want %d: %.300s", name, status, c.want, answer)
		}
	}
	large := &http.Request{
		Method: http.MethodGet, URL: mustParse(t, s.url("/health")),
		Header: http.Header{"X-Large": {strings.Repeat("x", 1<<20)}},
	}
	if resp, err := http.DefaultClient.Do(large.WithContext(t.Context())); err == nil {
		resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of 1 MB: %s, want 431", resp.Status)
		}
	}
}

// oddBody is a body and what it is refused with.
type oddBody struct {
	path, kind, encoding string
	body                 []byte
	want                 int
	field, code          string
}

// oddBodies are small on the wire, or within the limits one by one, and would
// take much to work on.
func oddBodies(t *testing.T) map[string]oddBody {
	t.Helper()
	const one, many, kind, lines = "/events", "/events/batch", "application/json", "application/x-ndjson"
	var bomb bytes.Buffer
	zip, err := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	for range 1 << 10 { // 1 GiB
		_, _ = zip.Write(make([]byte, 1<<20))
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	repeat := func(text string, n int) []byte { return bytes.Repeat([]byte(text), n) }
	in := func(begin string, middle []byte, end string) []byte {
		return append(append([]byte(begin), middle...), end...)
	}
	event := valid(nil) // each has its own length
	deep := in(event[:len(event)-1]+`,"metadata":{"a":`, repeat("[", 60_000), "")
	return map[string]oddBody{
		"a bomb": {
			one, kind, "gzip", bomb.Bytes(), http.StatusRequestEntityTooLarge, "",
			"body_size",
		},
		"a bomb of lines": {
			many, lines, "gzip", bomb.Bytes(), http.StatusRequestEntityTooLarge, "",
			"body_size",
		},
		"half of a bomb": {one, kind, "gzip", bomb.Bytes()[:100], http.StatusBadRequest, "", ""},
		"unknown compression": {
			one, kind, "br", []byte("x"), http.StatusUnsupportedMediaType,
			"Content-Encoding", "content_encoding",
		},
		"compressed twice": {
			one, kind, "gzip, gzip", []byte("x"), http.StatusUnsupportedMediaType,
			"Content-Encoding", "content_encoding",
		},
		"an event of 1 MB": {
			one, kind, "", in(valid(nil), repeat(" ", 1<<20), ""), http.StatusBadRequest, "",
			"size",
		},
		"an event without bottom": {one, kind, "", deep, http.StatusBadRequest, "", "json"},
		"a list without bottom": {
			many, kind, "", in(`{"events":`, repeat("[", 4<<20), ""), http.StatusBadRequest,
			"", "json",
		},
		"one that is whole": {many, kind, "", in(`{"events":`,
			append(repeat("[", 3<<20), repeat("]", 3<<20)...), "}"), http.StatusBadRequest, "", "json"},
		"4,000,000 items": {
			many, kind, "", in(`{"events":[0`, repeat(",0", 4<<20-100), "]}"),
			http.StatusRequestEntityTooLarge, "events", "batch_size",
		},
		"4,000,000 lines": {
			many, lines, "", repeat("0\n", 4<<20), http.StatusRequestEntityTooLarge,
			"events", "batch_size",
		},
		"a line of 8 MB": {many, lines, "", repeat("x", 8<<20), http.StatusBadRequest, "events[0]", "size"},
		"lines to the single events": {
			one, lines, "", repeat("{}\n", 20_000), http.StatusRequestEntityTooLarge,
			"events", "batch_size",
		},
		"a number of 100,000 digits": {
			one, kind, "", in(`{"occurred_at":`, repeat("9", 100_000), "}"),
			http.StatusBadRequest, "occurred_at", "",
		},
		"20,000 times one field": {
			one, kind, "", in(`{"stage":"crawled"`, repeat(`,"a":1`, 20_000), "}"),
			http.StatusBadRequest, "occurred_at", "missing",
		},
	}
}

// testPipelined: requests that come before the answers of those ahead of them
// are answered in their order, and take no more than they do one by one.
func testPipelined(t *testing.T, s *server) {
	conn, err := net.Dial("tcp", s.ports.HTTP)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(waitLimit))
	const n = 2000
	reader := token(t, "read")
	go func() {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, "GET %s/funnel?period=%d HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
				api, i, reader)
		}
		_, _ = io.WriteString(conn, all.String())
	}()
	in := bufio.NewReader(conn)
	for i := range n {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusBadRequest {
			t.Fatalf("answer %d: %s, %v", i, resp.Status, err)
		}
	}
}

// spaces has no end.
type spaces struct{}

func (spaces) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
