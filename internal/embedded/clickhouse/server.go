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

	"github.com/millrace-io/millrace/internal/connlimit"
)

// Server serves the engine over the native protocol and over HTTP.
type Server struct {
	cfg   Config
	log   *slog.Logger
	ready chan struct{}

	engine     *engine
	addr, http net.Addr
	reads      chan struct{} // holds a token for each query of an analyst that runs
	turned     chan struct{} // and for each client that is told that there is no room

	named sessions // over HTTP

	mu    sync.Mutex
	conns map[*conn]struct{} // nil once the server stops
	tasks sync.WaitGroup
}

// maxTurned is how many clients are told at one time that there is no room.
const maxTurned = 32

// New validates cfg and starts nothing.
func New(cfg Config, log *slog.Logger) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{
		cfg: cfg, log: log, ready: make(chan struct{}), conns: map[*conn]struct{}{},
		reads: make(chan struct{}, cfg.MaxReads), turned: make(chan struct{}, maxTurned),
		named: sessions{all: map[sessionKey]*namedSession{}},
	}, nil
}

// Ready is closed once clients can connect.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Addr is where the native protocol is served, once Ready.
func (s *Server) Addr() net.Addr { return s.addr }

// HTTPAddr is where the HTTP interface is served, once Ready.
func (s *Server) HTTPAddr() net.Addr { return s.http }

// Run serves until ctx is done, then gives running queries their grace, cancels
// them, and stops the engine last. Call it once.
//
// When the engine does not end a statement, Run does so within a few seconds
// with [ErrStuck], and leaves the engine as it is: the process has to end.
func (s *Server) Run(ctx context.Context) error {
	listeners := s.cfg.Listeners
	if listeners == nil {
		opened, err := Listen(s.cfg)
		if err != nil {
			return err
		}
		listeners = &opened
	}
	defer listeners.Native.Close()
	defer listeners.HTTP.Close()
	var err error
	if s.engine, err = openEngine(s.cfg, s.log); err != nil {
		return err
	}
	if err = s.serve(ctx, listeners.Native, listeners.HTTP); errors.Is(err, ErrStuck) {
		return err
	}
	if failed := s.engine.penalties.save(); failed != nil {
		s.log.Error("statements that have run are forgotten", "error", failed)
	}
	s.named.stop()
	s.engine.close()
	return err
}

// Listeners are where clients connect.
type Listeners struct{ Native, HTTP net.Listener }

// Listen opens the listeners of a server: for one that will run in a process
// that may not.
func Listen(cfg Config) (Listeners, error) {
	native, err := listen("native protocol", cfg.Listen)
	if err != nil {
		return Listeners{}, err
	}
	web, err := listen("HTTP interface", cfg.HTTPListen)
	if err != nil {
		return Listeners{}, errors.Join(err, native.Close())
	}
	return Listeners{Native: native, HTTP: web}, nil
}

func listen(what, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for the %s of ClickHouse at %s: %w", what, addr, err)
	}
	return l, nil
}

func (s *Server) serve(ctx context.Context, tcp, web net.Listener) error {
	// Queries outlive ctx by their grace.
	queries, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	cancelQueries := func() { cancel(errStopping) }
	defer cancelQueries()
	site := s.site(queries)
	failed := make(chan error, 2)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- s.accept(queries, tcp) })
	limited := connlimit.New(s.cfg.MaxConnections, s.log).Listen(site, web)
	serving.Go(func() { failed <- site.Serve(limited) })
	s.addr, s.http = tcp.Addr(), web.Addr()
	close(s.ready)
	s.log.Info("ClickHouse is ready", "native", s.addr.String(), "http", s.http.String())

	var err error
	grace := s.cfg.Grace
	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-s.engine.stuck:
		grace = min(grace, stuckGrace)
	}
	_ = tcp.Close()
	s.drain(site, grace, cancelQueries)
	if errors.Is(err, ErrStuck) {
		return err
	}
	serving.Wait()
	if err := s.settle(); err != nil {
		return err
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain ends all connections: idle ones at once, others after their query or
// when their grace has passed.
func (s *Server) drain(site *http.Server, grace time.Duration, cancelQueries func()) {
	s.mu.Lock()
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range conns {
		c.drain()
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	context.AfterFunc(ctx, cancelQueries)
	done := s.idle()
	if site.Shutdown(ctx) != nil {
		cancelQueries()
		// A cancelled query answers its client; one that does not read loses it.
		last, cancelLast := context.WithTimeout(context.Background(), grace)
		defer cancelLast()
		if site.Shutdown(last) != nil {
			_ = site.Close()
		}
	}
	select {
	case <-done:
	case <-ctx.Done():
		cancelQueries()
		deadline := time.Now().Add(grace)
		for c := range conns {
			_ = c.net.SetDeadline(deadline)
		}
	}
}

// stuckGrace is what queries have left beside one that the engine does not end.
const stuckGrace = time.Second

// idle returns a channel that is closed when all tasks have ended.
func (s *Server) idle() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	return done
}

// settle waits until all tasks have ended, or the engine does not end one.
func (s *Server) settle() error {
	select {
	case <-s.idle():
		return nil
	case err := <-s.engine.stuck:
		return err
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
			s.turnAway(c)
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
	if len(s.conns) >= s.cfg.MaxConnections && !s.evict(nobody) && !s.evict(reader) {
		s.log.Warn("refusing a ClickHouse client", "client", c.net.RemoteAddr().String(), "connections", len(s.conns))
		return false
	}
	s.conns[c] = struct{}{}
	s.tasks.Add(1)
	return true
}

// turnAway tells a client why it cannot come in. Unless too many are being told, it
// has time to read that.
func (s *Server) turnAway(c *conn) {
	if !s.begin() {
		_ = c.explain(errStops())
		_ = c.net.Close()
		return
	}
	select {
	case s.turned <- struct{}{}:
		go func() {
			defer func() { <-s.turned }()
			defer s.tasks.Done()
			defer c.net.Close()
			c.leave(errTooMany())
		}()
	default:
		defer s.tasks.Done()
		_ = c.explain(errTooMany()) // which a new connection always has room for
		_ = c.net.Close()
	}
}

// evict ends the connection of a kind that has waited longest for its client, if one does:
// they must not keep others out.
func (s *Server) evict(kind account) bool {
	var longest *conn
	var since time.Time
	for c := range s.conns {
		if c.who != kind {
			continue
		}
		if at := c.waiting(); !at.IsZero() && (longest == nil || at.Before(since)) {
			longest, since = c, at
		}
	}
	if longest == nil {
		return false
	}
	delete(s.conns, longest)
	longest.evict() // its task ends by itself
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
	if who == reader && readers >= s.cfg.maxReaders() && !s.evict(reader) {
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
