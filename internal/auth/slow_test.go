package auth

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestSlowStrangers: who is refused does not hold the connection by a body that
// never ends, and who is refused with a whole one keeps it.
func TestSlowStrangers(t *testing.T) {
	srv := httptest.NewUnstartedServer(New(Config{Secret: secret}).Require(EventsWrite)(http.NotFoundHandler()))
	srv.Config.IdleTimeout = time.Minute
	srv.Start()
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	for _, body := range []string{strings.Repeat("x", 1000), strings.Repeat("x", 1000), "x"} {
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n%s",
			body); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%+v, %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the connection is not ended: %v", err)
	}
}
