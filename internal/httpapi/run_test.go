package httpapi

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// running serves f until end is called, which returns what Serve returned.
func running(t *testing.T, f fixture) (addr string, end func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Serve(ctx, ln) }()
	return ln.Addr().String(), func() error { cancel(); return <-done }
}

func TestDrainLetsRequestsFinish(t *testing.T) {
	f := newServer(t, Config{})
	inside, finish := make(chan struct{}), make(chan struct{})
	f.base.Get("/slow", func(w http.ResponseWriter, r *http.Request) {
		close(inside)
		<-finish
		if r.Context().Err() != nil {
			t.Error("the request is cancelled by the shutdown")
		}
		_, _ = io.WriteString(w, "done")
	})
	addr, end := running(t, f)
	answer := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + addr + "/api/v1/slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		text, _ := io.ReadAll(r.Body)
		answer <- string(text)
	}()
	<-inside
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	<-f.Draining()
	select {
	case <-ended:
		t.Error("the server ended before its request")
	default:
	}
	close(finish)
	if got := <-answer; got != "done" {
		t.Errorf("the request got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDrainWaitsForHijackedConnections(t *testing.T) {
	f := newServer(t, Config{})
	inside, left := make(chan struct{}), make(chan struct{})
	f.base.Get("/live", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		close(inside)
		<-f.Draining()
		close(left)
	})
	addr, end := running(t, f)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
	<-inside
	if err := end(); err != nil {
		t.Error(err)
	}
	select {
	case <-left:
	default:
		t.Error("the server ended before the hijacked connection's handler")
	}
}

// TestDrain: a server that was told to end says so, and answers for a while. Whoever asks has
// to make a new connection, and none is refused or cut off before the end.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const drain = 10 * time.Second
		f := newServer(t, Config{Drain: drain})
		ln := newPipeListener()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Serve(ctx, ln) }()
		kept := &http.Client{Transport: &http.Transport{DialContext: ln.dial}}
		ask := func(path string) *http.Response {
			t.Helper()
			resp, err := kept.Get("http://localhost" + path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			return resp
		}
		if resp := ask("/ready"); resp.StatusCode != http.StatusOK || resp.Close {
			t.Errorf("before: %s, closes %t", resp.Status, resp.Close)
		}
		cancel()
		synctest.Wait()
		for range 9 {
			if resp := ask("/ready"); resp.StatusCode != http.StatusServiceUnavailable || !resp.Close {
				t.Errorf("/ready: %s, closes %t", resp.Status, resp.Close)
			}
			if resp := ask("/health"); resp.StatusCode != http.StatusOK || !resp.Close {
				t.Errorf("/health: %s, closes %t", resp.Status, resp.Close)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(2 * time.Second)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("it goes on after its time")
		}
		kept.CloseIdleConnections()
	})
}

// pipeListener is a listener within a test's bubble.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func TestDrainCutsOffWhatDoesNotEnd(t *testing.T) {
	f := newServer(t, Config{DrainTimeout: time.Millisecond})
	inside := make(chan struct{})
	f.base.Get("/stuck", func(_ http.ResponseWriter, r *http.Request) {
		close(inside)
		<-r.Context().Done()
	})
	addr, end := running(t, f)
	go func() { _, _ = http.Get("http://" + addr + "/api/v1/stuck") }()
	<-inside
	if err := end(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(f.log.String(), "cut off") {
		t.Error("nothing is logged of it")
	}
}

func TestBodyDeadlineEndsWithTheBody(t *testing.T) {
	f := newServer(t, Config{})
	f.base.With(LimitBody(10)).Post("/echo", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			WriteProblem(w, BodyProblem(err))
			return
		}
		_, _ = w.Write(text)
	})
	addr, end := running(t, f)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for range 2 { // on one connection: the first's deadline is gone
		_, _ = io.WriteString(conn, "POST /api/v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi")
		r, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := io.ReadAll(r.Body); string(text) != "hi" {
			t.Errorf("got %q", text)
		}
	}
	conn.Close()
	if err := end(); err != nil {
		t.Error(err)
	}
}
