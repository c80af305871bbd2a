package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/child"
	"github.com/millrace-io/millrace/internal/embedded/confine"
	"github.com/millrace-io/millrace/internal/embedded/port"
)

// Server is the embedded server. Its methods may be called from any goroutine,
// Run only once.
type Server struct {
	config   Config
	host     string
	port     int // chosen by Run when the configured one is 0
	log      *slog.Logger
	identity identity
	dsn      atomic.Pointer[string]
	child    atomic.Pointer[child.Child]
	ready    chan struct{}
	ran      atomic.Bool

	confinement atomic.Pointer[confine.Report]

	// Replaced by tests.
	identify func(context.Context, *Config) (identity, error)
	patience time.Duration // how long a start waits for what is left of an earlier server
}

// New checks the configuration and starts nothing.
func New(config Config, log *slog.Logger) (*Server, error) {
	host, port, err := config.check()
	if err != nil {
		return nil, err
	}
	return &Server{
		config: config, host: host, port: port, log: log.With("component", "postgres"),
		ready: make(chan struct{}), identify: identify, patience: 5 * time.Second,
	}, nil
}

// Ready is closed when the database answers.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// DSN is the URL of the database for clients on this machine, with the password:
// keep it out of logs. It is empty until the server is ready.
func (s *Server) DSN() string {
	if dsn := s.dsn.Load(); dsn != nil {
		return *dsn
	}
	return ""
}

// PID is the process id of Postgres' first process, 0 before it has started.
func (s *Server) PID() int {
	if c := s.child.Load(); c != nil {
		return c.PID()
	}
	return 0
}

// Run makes the data folder if need be, serves until ctx ends, and returns when
// the server has ended. Clients should have ended before: they are cut off.
func (s *Server) Run(ctx context.Context) error {
	if s.ran.Swap(true) {
		return errors.New("embedded Postgres: was run before")
	}
	err := s.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // told to stop while it was starting
	}
	if err != nil {
		return fmt.Errorf("embedded Postgres: %w", err)
	}
	return nil
}

func (s *Server) run(ctx context.Context) error {
	password, err := s.prepare(ctx)
	if err != nil {
		return err
	}
	if err := s.reclaim(ctx); err != nil {
		return err
	}
	if err := s.prepareRoles(ctx, password); err != nil {
		return s.explain(err)
	}
	if err := s.takePort(); err != nil {
		return err
	}
	rules := s.confined(ctx)
	started := time.Now()
	for {
		err := s.serve(ctx, password, rules)
		// Backends of a postmaster that was killed hold its shared memory for a
		// moment longer, and Postgres will not start beside them.
		left := s.DSN() == "" && mentions(err, "pre-existing shared memory block")
		if !left || time.Since(started) > s.patience {
			return s.explain(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// serve runs one child to its end.
func (s *Server) serve(ctx context.Context, password string, rules *confine.Rules) error {
	c, err := child.New(child.Config{
		Name: "postgres", Path: s.config.program("postgres"), Args: s.settings(),
		Env: environment(), Attr: s.identity.attr, Confine: rules,
		// Immediate shutdown: it ends its backends and leaves recovery to the next start.
		DeathSignal: syscall.SIGQUIT,
		Probe:       func(ctx context.Context) error { return s.answers(ctx, password) },
		Stop: []child.Step{
			{Signal: syscall.SIGINT, Grace: 20 * time.Second}, // fast: cuts clients off, writes a checkpoint
			{Signal: syscall.SIGQUIT, Grace: 6 * time.Second}, // immediate; it kills its backends after 5 s
		},
		Parse: parseLine,
	}, s.log)
	if err != nil {
		return err
	}
	s.child.Store(c)
	result := make(chan error, 1)
	go func() { result <- c.Run(ctx) }()
	watched, stop := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer stop()
	select {
	case <-c.Ready():
		if report := c.Confinement(); report != nil {
			s.confinement.Store(report)
		}
		dsn := s.url(password, s.config.Database)
		s.dsn.Store(&dsn)
		watch.Go(func() { limitMemory(watched, c.PID(), s.log) })
		watch.Go(func() { s.checkAnalyst(watched) })
		s.log.Info("embedded Postgres serves", "address", s.address(), "folder", s.config.Dir, "runs", s.identity.kind)
		close(s.ready)
	case err := <-result:
		return err
	}
	return <-result
}

func (s *Server) address() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

func (s *Server) url(password, database string) string {
	host := s.host
	switch ip := net.ParseIP(host); {
	case ip != nil && ip.IsUnspecified() && ip.To4() == nil:
		host = "::1" // Postgres takes no IPv4 on [::]
	case host == "" || ip != nil && ip.IsUnspecified():
		host = "127.0.0.1"
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(ownRole, password),
		Host: net.JoinHostPort(host, strconv.Itoa(s.port)), Path: "/" + database, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// takePort finds out, in clear words, whether the port is free, and chooses one
// when none is configured.
func (s *Server) takePort() error {
	addr, err := port.Try(s.address())
	if errors.Is(err, syscall.EADDRINUSE) {
		return s.portTaken()
	}
	if err != nil {
		return fmt.Errorf("listen on %s (%s): %w", s.address(), EnvListen, err)
	}
	s.port = addr.(*net.TCPAddr).Port
	return nil
}

func (s *Server) portTaken() error {
	return fmt.Errorf("%s is taken by another program: set %s to another address, or %s to use a server of your own",
		s.address(), EnvListen, envDSN)
}

// explain makes one clear line of how the child failed.
func (s *Server) explain(err error) error {
	var exit *child.ExitError
	switch {
	case err == nil:
		return nil
	case mentions(err, "could not create any TCP/IP sockets"):
		return s.portTaken()
	case mentions(err, "pre-existing shared memory block"):
		return fmt.Errorf("processes of an earlier Postgres still use %s: end them, and start again", s.config.data())
	case errors.As(err, &exit):
		exit.Tail = telling(exit.Tail)
	}
	return err
}

func mentions(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// environment is that of this process without secrets, and without Postgres' own
// variables, which would speak of another server.
func environment() []string {
	return append(confine.Environ(), "LC_ALL=C") // messages that parseLine knows
}
