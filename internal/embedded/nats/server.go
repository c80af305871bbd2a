package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/embedded/port"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Server is the embedded server. Its methods may be called from any goroutine,
// Run only once.
type Server struct {
	config Config
	opts   *server.Options
	srv    *server.Server
	log    *logger
	ready  chan struct{}
	ran    atomic.Bool
}

// New checks the configuration and starts nothing.
func New(config Config, log *slog.Logger) (*Server, error) {
	opts, err := config.options()
	if err != nil {
		return nil, err
	}
	return &Server{
		config: config, opts: opts, log: &logger{log: log.With("component", "nats"), broken: make(chan struct{}, 1)},
		ready: make(chan struct{}),
	}, nil
}

// Ready is closed when clients can connect.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends, and returns when the server has stopped and its
// streams are closed. Clients should have ended before: see the order of
// shutdown in the program. With an error after it was ready, it has not stopped,
// and the process has to end.
func (s *Server) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("embedded NATS: was run before")
	}
	if err := s.prepare(); err != nil {
		return err
	}
	s.srv.Start() // returns when it accepts connections, or has failed
	stuck := false
	defer func() {
		if stuck {
			return // it would wait for ever
		}
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
	}()
	if fatal := s.log.fatal(); fatal != nil {
		return fmt.Errorf("embedded NATS on %s in %s: %w", s.hostPort(), s.config.StoreDir, fatal)
	}
	s.log.log.Info("embedded NATS serves", "address", s.hostPort(), "folder", s.config.StoreDir,
		"sync_always", s.opts.SyncAlways)
	close(s.ready)
	if err := s.guard(ctx); err != nil {
		stuck = true
		return fmt.Errorf("embedded NATS in %s: %w", s.config.StoreDir, err)
	}
	return nil
}

// prepare makes the server, with its folder, logins and streams in place.
func (s *Server) prepare() error {
	if err := s.checkAddress(); err != nil {
		return err
	}
	if err := s.config.addLogins(s.opts); err != nil {
		return err
	}
	if err := moveStreams(s.config.StoreDir); err != nil {
		return err
	}
	srv, err := server.NewServer(s.opts)
	if err != nil {
		return fmt.Errorf("embedded NATS: %w", err)
	}
	srv.SetLoggerV2(s.log, false, false, false)
	s.srv = srv
	return nil
}

// checkAddress finds what the server itself would report less clearly.
func (s *Server) checkAddress() error {
	// RANDOM_PORT becomes 0 within the server's options.
	if s.opts.Port <= 0 {
		return nil
	}
	_, err := port.Try(s.hostPort())
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("embedded NATS: %s is taken by another program: set %s to another address, or "+
			"MILLRACE_NATS_URL to use a server of your own",
			s.hostPort(), EnvListen)
	}
	if err != nil {
		return fmt.Errorf("embedded NATS: listen on %s (%s): %w", s.hostPort(), EnvListen, err)
	}
	return nil
}

func (s *Server) hostPort() string {
	if s.srv != nil && s.srv.Addr() != nil {
		return s.srv.Addr().String()
	}
	return net.JoinHostPort(s.opts.Host, strconv.Itoa(max(s.opts.Port, 0)))
}

// ClientURL is the URL for clients on this machine, with the credentials when
// there are any: keep it out of logs. It is right once the server is ready.
func (s *Server) ClientURL() string {
	host, port, err := net.SplitHostPort(s.hostPort())
	if err != nil {
		return s.srv.ClientURL()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := url.URL{Scheme: "nats", Host: net.JoinHostPort(host, port)}
	if s.config.User != "" {
		u.User = url.UserPassword(s.config.User, s.config.Password)
	}
	return u.String()
}

// InProcess is an option for nats.Connect that connects without a socket, as
// Millrace itself; the URL is then of no account.
func (s *Server) InProcess() nats.Option {
	return func(o *nats.Options) error {
		login, err := s.Login(stream.RoleMillrace)
		if err != nil {
			return err
		}
		o.InProcessServer = s.srv
		return login(o)
	}
}
