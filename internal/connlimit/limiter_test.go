package connlimit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// site is a server of at most five connections. Requests to /wait are answered
// when release is closed, those to /take keep their connection, those to /keep have it kept,
// and those to /early are answered before their body has come.
type site struct {
	t       *testing.T
	limiter *Limiter
	addr    string
	begun   chan struct{}
	release chan struct{}
	taken   chan net.Conn
}

func serve(t *testing.T) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t, New(5, slog.New(slog.DiscardHandler)), ln.Addr().String(), make(chan struct{}), make(chan struct{}),
		make(chan net.Conn, 10),
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			s.begun <- struct{}{}
			<-s.release
		case "/take":
			conn, _, _ := http.NewResponseController(w).Hijack()
			s.taken <- conn
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		case "/keep":
			Keep(r.Context())
			fallthrough
		case "/read":
			s.begun <- struct{}{}
			_, _ = io.Copy(io.Discard, r.Body)
		case "/early":
			s.begun <- struct{}{}
		}
	})}
	go func() { _ = srv.Serve(s.limiter.Listen(srv, ln)) }()
	t.Cleanup(func() { _ = srv.Close() })
	return s
}

type client struct {
	net.Conn
	in *bufio.Reader
}

func (s *site) dial() client {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return client{conn, bufio.NewReader(conn)}
}

func (c client) send(path string) client {
	_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) // a failure shows when the answer is read
	return c
}

// served tells whether the last request was answered.
func (c client) served() bool {
	resp, err := http.ReadResponse(c.in, nil)
	return err == nil && resp.StatusCode < 300
}

// closed tells whether the server has closed the connection.
func (c client) closed() bool {
	_, err := c.in.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// waits returns when so many connections wait for their clients: the server says so after it
// has answered.
func (s *site) waits(n int) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		now := 0
		s.limiter.mu.Lock()
		for e := s.limiter.conns.Front(); e != nil; e = e.Next() {
			if e.Value.(*conn).waits {
				now++
			}
		}
		s.limiter.mu.Unlock()
		if now == n {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%d connections wait, want %d", now, n)
		}
	}
}

// TestLongestWaiting: who has waited longest gives way, silent or between two
// requests, and whoever comes is served.
func TestLongestWaiting(t *testing.T) {
	s := serve(t)
	silent := s.dial()
	s.waits(1)
	var idle []client
	for i := range 4 {
		idle = append(idle, s.dial().send("/"))
		if !idle[i].served() {
			t.Fatal("not served")
		}
		s.waits(i + 2)
	}
	if !idle[0].send("/").served() { // the others have waited longer from now on
		t.Error("not served again")
	}
	s.waits(5)
	for _, gone := range []client{silent, idle[1], idle[2]} {
		if !s.dial().send("/").served() || !gone.closed() {
			t.Error("the one that has waited longest is still there")
		}
		s.waits(5)
	}
	if !idle[0].send("/").served() || !idle[3].send("/").served() {
		t.Error("one that has not waited longest is gone")
	}
}

// TestUnfinishedHeaders: connections on which the rest of the headers never comes
// keep nobody out.
func TestUnfinishedHeaders(t *testing.T) {
	s := serve(t)
	var slow []client
	for i := range 5 {
		slow = append(slow, s.dial())
		_, _ = io.WriteString(slow[i], "GET / HTTP/1.1\r\nHost:")
		s.waits(i + 1)
	}
	for i := range 5 {
		if !s.dial().send("/").served() {
			t.Error("the next client is not served")
		}
		if !slow[i].closed() {
			t.Errorf("slow client %d is still there", i)
		}
		s.waits(5)
	}
}

// TestUnfinishedBodies: connections on which the rest of a body never comes, or comes byte by
// byte, keep nobody out, whether the handler waits for it or the server itself. Neither do
// they drive out those that came later. Those that are kept stay.
func TestUnfinishedBodies(t *testing.T) {
	s := serve(t)
	post := func(path string) client {
		c := s.dial()
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n1", path)
		<-s.begun
		return c
	}
	kept := post("/keep")
	var slow []client
	for i, path := range []string{"/read", "/read", "/early", "/early"} {
		slow = append(slow, post(path))
		s.waits(i + 1)
	}
	var honest []client
	for i := range 4 {
		if i == 1 {
			_, _ = io.WriteString(slow[1], "2") // which does not make it younger than honest[0]
		}
		honest = append(honest, s.dial().send("/"))
		if !honest[i].served() {
			t.Error("the next client is not served")
		}
		if !slow[i].closed() {
			t.Errorf("slow client %d is still there", i)
		}
		s.waits(4)
	}
	var busy []client
	for _, c := range honest { // all four are there still
		busy = append(busy, c.send("/wait"))
		<-s.begun
	}
	_, _ = io.WriteString(kept, strings.Repeat("2", 29))
	if !kept.served() {
		t.Error("a connection that is kept is gone")
	}
	s.waits(1)
	if !s.dial().send("/").served() || !kept.closed() {
		t.Error("it is kept beyond its request")
	}
	close(s.release)
	for _, c := range busy {
		if !c.served() {
			t.Error("a request under way was broken off")
		}
	}
}

// TestBusy: requests under way and connections taken over stay. When there is
// nobody else, who comes is sent away, until there is room.
func TestBusy(t *testing.T) {
	s := serve(t)
	var busy []client
	for range 3 {
		busy = append(busy, s.dial().send("/wait"))
		<-s.begun
	}
	for range 2 {
		c := s.dial().send("/take")
		if !c.served() {
			t.Fatal("not served")
		}
		busy = append(busy, c)
	}
	resp, err := http.ReadResponse(s.dial().send("/").in, nil)
	if err != nil {
		t.Fatal("the sixth connection has no answer:", err)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(string(text), "too many connections") {
		t.Errorf("the sixth connection: %s %q, %v", resp.Status, text, err)
	}
	_ = (<-s.taken).Close()
	if !busy[3].closed() {
		t.Error("a connection that was closed is open")
	}
	if c := s.dial().send("/"); !c.served() {
		t.Error("there is room, and one is not served")
	}
	close(s.release)
	for _, c := range busy[:3] {
		if !c.served() {
			t.Error("a request under way was broken off")
		}
	}
}
