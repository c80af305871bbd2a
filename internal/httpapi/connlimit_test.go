package httpapi

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestIdleConnections: connections that stay open between requests, however
// many, keep nobody out.
func TestIdleConnections(t *testing.T) {
	const most = 20
	f := newServer(t, Config{Connections: most})
	addr, end := running(t, f)
	ask := func() (net.Conn, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return conn, err
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && r.StatusCode != http.StatusOK {
			err = fmt.Errorf("answered %s", r.Status)
		}
		return conn, err
	}
	var first net.Conn
	for i := range 5 * most {
		conn, err := ask()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
		if first == nil {
			first = conn
		}
	}
	if n, err := first.Read(make([]byte, 1)); err == nil {
		t.Errorf("the first of %d connections is still open and sends %d bytes", 5*most, n)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
