package httpapi

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestSlowAndOversized holds that a caller who trickles, or sends too much,
// holds nothing for long: it is answered, or cut off.
func TestSlowAndOversized(t *testing.T) {
	f := newServer(t, Config{HeaderTimeout: 2 * time.Second, BodyTimeout: 2 * time.Second})
	f.base.With(LimitBody(1000)).Post("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			WriteProblem(w, BodyProblem(err))
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	addr, end := running(t, f)
	const post = "POST /api/v1/read HTTP/1.1\r\nHost: localhost\r\n"
	chunk := "400\r\n" + strings.Repeat("x", 0x400) + "\r\n"
	t.Run("at once", func(t *testing.T) {
		for _, c := range []struct {
			name, sent string
			want       int // 0: cut off
		}{
			{"a header that never ends", "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", 0},
			{"nothing at all", "", 0},
			{"a body that never ends", post + "Content-Length: 900\r\n\r\nx", http.StatusRequestTimeout},
			{
				"chunks that never end", post + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
				http.StatusRequestTimeout,
			},
			{
				"a body that is said to be too large", post + "Content-Length: 1001\r\n\r\n" +
					strings.Repeat("x", 1001),
				http.StatusRequestEntityTooLarge,
			},
			{
				"one that is, in chunks", post + "Transfer-Encoding: chunked\r\n\r\n" + chunk + chunk + "0\r\n\r\n",
				http.StatusRequestEntityTooLarge,
			},
			{"a header that is too large", "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: " +
				strings.Repeat("x", 128<<10) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
			{"a request in time", post + "Content-Length: 3\r\n\r\nabc", http.StatusNoContent},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				go func() { _, _ = io.WriteString(conn, c.sent) }() // more than it reads may never be sent
				r, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if c.want == 0 {
					if err == nil && r.StatusCode != http.StatusRequestTimeout {
						t.Errorf("answered %s", r.Status)
					}
					if _, err := io.Copy(io.Discard, conn); err != nil {
						t.Errorf("not cut off: %v", err)
					}
					return
				}
				if err != nil || r.StatusCode != c.want {
					t.Fatalf("%v %v, want %d", r, err, c.want)
				}
			})
		}
	})
	if err := end(); err != nil {
		t.Error(err)
	}
}
