package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"
)

// serves adds a plain GET route.
func (f fixture) serves(path string, h http.HandlerFunc) {
	f.Handle(&huma.Operation{OperationID: path, Method: http.MethodGet, Path: path}, h)
}

func decoded(t *testing.T, r *http.Response) string {
	t.Helper()
	body := io.Reader(r.Body)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "gzip":
		zip, err := gzip.NewReader(body)
		if err != nil {
			t.Fatal(err)
		}
		body = zip
	case "zstd":
		z, err := zstd.NewReader(body)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		body = z
	case "":
	default:
		t.Fatalf("the content encoding is %q", encoding)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestCompression: long answers of any kind are compressed as the caller takes it,
// and no others.
func TestCompression(t *testing.T) {
	f := newServer(t, Config{})
	long := strings.Repeat(`{"source":"example"},`, 20_000)
	f.serves("/long", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, http.StatusCreated, long) })
	f.serves("/short", func(w http.ResponseWriter, _ *http.Request) { WriteJSON(w, http.StatusOK, "short") })
	f.serves("/wrong", func(w http.ResponseWriter, _ *http.Request) { WriteProblem(w, NewProblem(409, long)) })
	f.serves("/done", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		_, _ = io.WriteString(zip, long)
		_ = zip.Close()
	})
	for _, c := range []struct {
		path, accepts, encoding string
		status                  int
	}{
		{"/long", "", "", 201},
		{"/long", "gzip", "gzip", 201},
		{"/long", "zstd", "zstd", 201},
		{"/long", "gzip, deflate, br, zstd", "zstd", 201},
		{"/long", "gzip;q=1, zstd;q=0.5", "gzip", 201},
		{"/long", "br, gzip;q=0", "", 201},
		{"/short", "gzip, zstd", "", 200},
		{"/wrong", "gzip", "gzip", 409},
		{"/done", "gzip", "gzip", 200},
		{"/done", "zstd, gzip", "gzip", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/api/v1"+c.path, nil)
		r.Header.Set("Accept-Encoding", c.accepts)
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		size, text := w.Body.Len(), decoded(t, w.Result())
		if w.Code != c.status || w.Header().Get("Content-Encoding") != c.encoding ||
			!strings.Contains(w.Header().Get("Vary"), "Accept-Encoding") {
			t.Errorf("%s for %q: %d %v", c.path, c.accepts, w.Code, w.Header())
		}
		if c.path != "/short" && (len(text) < len(long) || (c.encoding != "") != (size < len(long)/20)) {
			t.Errorf("%s for %q: %d bytes of %d", c.path, c.accepts, size, len(text))
		}
	}
	for _, path := range []string{"/openapi.json", "/metrics"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		f.Handler().ServeHTTP(w, r)
		if text := decoded(t, w.Result()); w.Header().Get("Content-Encoding") != "gzip" || len(text) < 500 {
			t.Errorf("%s: %v %.80s", path, w.Header(), text)
		}
	}
}

// TestEventsAreSentAtOnce: server-sent events are neither held nor compressed.
func TestEventsAreSentAtOnce(t *testing.T) {
	f := newServer(t, Config{})
	read := make(chan struct{})
	f.serves("/feed", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventStream)
		conn := http.NewResponseController(w)
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "id: %d\n\n", i)
			if err := conn.Flush(); err != nil {
				t.Error(err)
			}
			<-read // or nobody reads it
		}
	})
	addr, end := running(t, f)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn,
		"GET /api/v1/feed HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip, zstd\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.Header.Get("Content-Encoding") != "" {
		t.Fatal(err, resp)
	}
	lines := bufio.NewReader(resp.Body)
	for i := range 3 {
		if line, err := lines.ReadString('\n'); line != fmt.Sprintf("id: %d\n", i) || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		_, _ = lines.ReadString('\n')
		read <- struct{}{}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// watched tells when the first byte of an answer is sent.
type watched struct {
	*httptest.ResponseRecorder
	sent func()
}

func (w *watched) Write(p []byte) (int, error) {
	w.sent()
	return w.ResponseRecorder.Write(p)
}

// TestSlowReaders: the compressor of an answer is free before its reader gets the
// first byte; only of an answer that is very long, a bounded part waits.
func TestSlowReaders(t *testing.T) {
	noise := make([]byte, 5<<20)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for name, c := range map[string]struct {
		answer []byte
		early  bool
	}{
		"an answer":           {bytes.Repeat([]byte("source-1,"), 100_000), false},
		"a very long answer":  {noise, true},
		"a part of the limit": {noise[:maxWaiting/2], false},
	} {
		compress, err := newCompressor()
		if err != nil {
			t.Fatal(err)
		}
		done, early := false, false
		h := compress(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for part := range slicesOf(c.answer, 10_000) {
				_, _ = w.Write(part)
			}
			done = true
		}))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "zstd")
		w := &watched{ResponseRecorder: httptest.NewRecorder()}
		w.sent = func() { early = early || !done }
		h.ServeHTTP(w, r)
		if text := decoded(t, w.Result()); text != string(c.answer) || w.Header().Get("Content-Encoding") != "zstd" {
			t.Errorf("%s: %d bytes of %d, %v", name, len(text), len(c.answer), w.Header())
		}
		if early != c.early {
			t.Errorf("%s: sent before it was complete: %t, want %t", name, early, c.early)
		}
	}
}

func slicesOf(all []byte, size int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(all) > 0 {
			n := min(size, len(all))
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// TestMetricsGuard: the guard decides about the metrics, and about nothing else.
func TestMetricsGuard(t *testing.T) {
	s, err := New(Config{}, Deps{
		Log: newServer(t, Config{}).Server.log, Registry: prometheus.NewRegistry(),
		MetricsGuard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") == "" {
					WriteProblem(w, NewProblem(http.StatusUnauthorized, "no"))
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, token string
		status      int
	}{
		{"/metrics", "", 401},
		{"/metrics", "x", 200},
		{"/health", "", 200},
		{"/ready", "", 200},
		{"/openapi.json", "", 200},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+c.path, nil)
		r.Header.Set("Authorization", c.token)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%s with the token %q: %d", c.path, c.token, w.Code)
		}
	}
}
