package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// profileSettings let a developer look into a running program.
type profileSettings struct {
	Addr string `help:"Loopback address to serve profiles on, for \"go tool pprof http://ADDRESS/debug/pprof/profile\"; empty: none." env:"MILLRACE_PPROF_ADDR" name:"pprof-addr"`

	SlowRequest   time.Duration `help:"How long a request takes that is logged as slow, with the names of its parameters; 0: none is." env:"MILLRACE_SLOW_REQUEST" name:"slow-request" default:"5s"`
	SlowStatement time.Duration `help:"How long a statement on Postgres or ClickHouse takes that is logged as slow, with the types of its parameters; 0: none is." env:"MILLRACE_SLOW_STATEMENT" name:"slow-statement" default:"1s"`
}

// launch serves profiles as a part of the stack when an address is set.
func (c profileSettings) launch(s *stack) error {
	if c.Addr == "" {
		return nil
	}
	// A profile tells what is in memory, and taking one costs time.
	if !loopback(c.Addr) {
		return fmt.Errorf("MILLRACE_PPROF_ADDR=%s is open to other machines: use an address like 127.0.0.1:6060",
			c.Addr)
	}
	ln, err := net.Listen("tcp", c.Addr)
	if err != nil {
		return fmt.Errorf("serve profiles: %w: set MILLRACE_PPROF_ADDR to a free address", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	s.launch("profiles", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve profiles: %w", err)
		}
		return nil
	})
	return nil
}
