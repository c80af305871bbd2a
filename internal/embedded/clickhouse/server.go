package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/crowd"
)

// Server serves the engine over the native protocol and over HTTP.
type Server struct {
	cfg   Config
	log   *slog.Logger
	ready chan struct{}

	engine     *engine
	addr, http net.Addr
	reads      chan struct{} // holds a token for each query of an analyst that runs

	mu    sync.Mutex
	conns map[*conn]struct{} // nil once the server stops
	tasks sync.WaitGroup
}

// New validates cfg and starts nothing.
func New(cfg Config, log *slog.Logger) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, log: log, ready: make(chan struct{}), conns: map[*conn]struct{}{}, reads: make(chan struct{}, cfg.MaxReads)}, nil
}

// Ready is closed once clients can connect.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is where the native protocol is served, once Ready.
func (s *Server) Addr() net.Addr { return s.addr }

// HTTPAddr is where the HTTP interface is served, once Ready.
func (s *Server) HTTPAddr() net.Addr { return s.http }

// Run serves until ctx is done, then gives running queries their grace, cancels
// them, and stops the engine last. Call it once.
func (s *Server) Run(ctx context.Context) error {
	tcp, err := listen(s.cfg.Listen, "MILLRACE_CLICKHOUSE_LISTEN")
	if err != nil {
		return err
	}
	defer tcp.Close()
	web, err := listen(s.cfg.HTTPListen, "MILLRACE_CLICKHOUSE_HTTP")
	if err != nil {
		return err
	}
	defer web.Close()
	if s.engine, err = openEngine(s.cfg, s.log); err != nil {
		return err
	}
	defer s.engine.close()
	return s.serve(ctx, tcp, web)
}

func listen(addr, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for ClickHouse clients (%s=%s): %w", setting, addr, err)
	}
	return l, nil
}

func (s *Server) serve(ctx context.Context, tcp, web net.Listener) error {
	// Queries outlive ctx by their grace.
	queries, cancelQueries := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelQueries()
	site := s.site(queries)
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- s.accept(queries, tcp) })
	guests := crowd.New(s.cfg.MaxConnections, s.log).Listen(site, web)
	serving.Go(func() { failed <- site.Serve(guests) })
	s.addr, s.http = tcp.Addr(), web.Addr()
	close(s.ready)
	s.log.Info("ClickHouse is ready", "native", s.addr.String(), "http", s.http.String())

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	_ = tcp.Close()
	s.drain(site, cancelQueries)
	serving.Wait()
	s.tasks.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain ends all connections: idle ones at once, others after their query or
// when their grace has passed.
func (s *Server) drain(site *http.Server, cancelQueries func()) {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		c.drain()
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Grace)
	defer cancel()
	context.AfterFunc(ctx, cancelQueries)
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	if site.Shutdown(ctx) != nil {
		cancelQueries()
		// A cancelled query answers its client; one that does not read loses it.
		last, cancelLast := context.WithTimeout(context.Background(), s.cfg.Grace)
		defer cancelLast()
		if site.Shutdown(last) != nil {
			_ = site.Close()
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		cancelQueries()
		deadline := time.Now().Add(s.cfg.Grace)
		for c := range conns {
			_ = c.net.SetDeadline(deadline)
		}
	}
}

// accept serves native clients until l is closed. When the process has no file
// left for one, it tries again, as net/http does.
func (s *Server) accept(ctx context.Context, l net.Listener) error {
	for wait := time.Duration(0); ; {
		client, err := l.Accept()
		var passing interface{ Temporary() bool }
		if errors.As(err, &passing) && passing.Temporary() {
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			s.log.Warn("cannot accept a ClickHouse client", "error", err, "again_in", wait)
			time.Sleep(wait)
			continue
		}
		if err != nil {
			return fmt.Errorf("accept native clients: %w", err)
		}
		wait = 0
		c := newConn(s, client)
		if !s.register(c) {
			_ = client.Close()
			continue
		}
		go func() {
			defer s.tasks.Done()
			defer s.unregister(c)
			c.serve(ctx)
		}()
	}
}

// begin notes a task, unless the server stops.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	s.tasks.Add(1)
	return true
}

// register notes a client and its task.
func (s *Server) register(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		return false
	}
	if len(s.conns) >= s.cfg.MaxConnections && !s.evict() {
		s.log.Warn("refusing a ClickHouse client", "client", c.net.RemoteAddr().String(), "connections", len(s.conns))
		return false
	}
	s.conns[c] = struct{}{}
	s.tasks.Add(1)
	return true
}

// evict ends the oldest connection that has not said who it is, if there is
// one: they must not keep others out.
func (s *Server) evict() bool {
	var oldest *conn
	for c := range s.conns {
		if c.who == nobody && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(s.conns, oldest)
	_ = oldest.net.Close() // its task ends by itself
	return true
}

// greet notes who a connection is. It returns false when there are too many of
// its kind, or when it had to go.
func (s *Server) greet(c *conn, who account) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, here := s.conns[c]; !here && s.conns != nil {
		return false
	}
	readers := 0
	for other := range s.conns {
		if other.who == reader {
			readers++
		}
	}
	if who == reader && readers >= s.cfg.MaxConnections*3/4 {
		return false
	}
	c.who = who
	return true
}

func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
