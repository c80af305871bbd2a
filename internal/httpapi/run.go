package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/connlimit"
)

// checkExposure refuses to offer an open API to other machines.
func checkExposure(cfg Config) error {
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return fmt.Errorf("MILLRACE_HTTP_ADDR %q is not host:port: %w", cfg.Addr, err)
	}
	if cfg.Protected || host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("other machines can reach %s: set AUTH_JWT_SECRET to protect it, or MILLRACE_HTTP_ADDR to a "+
		"loopback address such as 127.0.0.1:8075", cfg.Addr)
}

// Listen takes the address. An error names the setting that changes it.
func (s *Server) Listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", s.cfg.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf(
			"HTTP address %s is in use: set MILLRACE_HTTP_ADDR to another, or end what listens there: %w",
			s.cfg.Addr, err,
		)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s (MILLRACE_HTTP_ADDR): %w", s.cfg.Addr, err)
	}
	return ln, nil
}

// Run listens and serves until ctx ends and for the Drain of the configuration, and then lets
// requests under way finish.
func (s *Server) Run(ctx context.Context) error {
	ln, err := s.Listen()
	if err != nil {
		return err
	}
	return s.Serve(ctx, ln)
}

// Serve is Run on a listener that is open already, which it closes. A server
// serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	// Requests end with the server, not with ctx: they may finish first.
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	srv := &http.Server{
		Handler:           s.root,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		// No ReadTimeout and WriteTimeout: streams and WebSockets live long.
		// limitBodyTime bounds how long a body may take, and the recorder how
		// long a caller takes to read.
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(connlimit.New(s.cfg.Connections, s.log).Listen(srv, ln)) }()
	s.log.Info("HTTP server listens", "address", ln.Addr().String())
	leave, end := ctx.Done(), (<-chan time.Time)(nil)
	for over := false; !over; {
		select {
		case err := <-served:
			s.drainOnce.Do(func() { close(s.draining) })
			return fmt.Errorf("serve HTTP on %s: %w", ln.Addr(), err)
		case <-leave:
			s.left = time.Now().UTC()
			close(s.leaving)
			leave, end = nil, time.After(s.cfg.Drain)
		case <-end:
			over = true
		}
	}
	s.drain(srv, cancel)
	<-served
	return nil
}

// askToLeave has callers make a new connection for their next request once the server was told
// to end: by the time it ends, no request comes over a connection that it is about to close.
func (s *Server) askToLeave(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.leaving:
			if r.Header.Get("Upgrade") == "" {
				w.Header().Set("Connection", "close")
			}
		default:
		}
		next.ServeHTTP(w, r)
	})
}

// drain takes no new requests and waits for those under way, first in
// patience, then with their contexts cancelled and connections closed.
func (s *Server) drain(srv *http.Server, cancelRequests func()) {
	s.drainOnce.Do(func() { close(s.draining) })
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.DrainTimeout)
	defer cancel()
	err := srv.Shutdown(ctx)
	if err == nil {
		err = s.waitActive(ctx)
	}
	if err == nil {
		return
	}
	s.log.Warn("requests were cut off because they did not end in time", "waited", s.cfg.DrainTimeout)
	cancelRequests()
	_ = srv.Close()
	ctx, cancel = context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.waitActive(ctx)
}

// waitActive waits for the handlers of hijacked connections too, which
// Shutdown does not know.
func (s *Server) waitActive(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.active.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
