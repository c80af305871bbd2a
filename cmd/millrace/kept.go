package main

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// engine is one run of an embedded server.
type engine interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{} // closed when it serves
}

// kept is an embedded server in a process of its own, started again when it
// ends by itself: events are taken in without it, and what they are folded into
// waits, so the rest of the process tree goes on.
type kept struct {
	engine // the first
	name   string
	again  func() (engine, error)
	log    *slog.Logger

	restarts *prometheus.CounterVec // by engine and reason
	current  atomic.Pointer[engine]
}

// Reasons for which an engine is started again.
const (
	reasonEnded = "ended"
	reasonStuck = "stuck"
)

// keep makes the first run, and starts nothing.
func keep(name string, log *slog.Logger, restarts *prometheus.CounterVec, begin func() (engine, error)) (*kept, error) {
	first, err := begin()
	if err != nil {
		return nil, err
	}
	k := &kept{engine: first, name: name, again: begin, log: log, restarts: restarts}
	k.current.Store(&first)
	for _, reason := range []string{reasonEnded, reasonStuck} { // so that the first restart is an increase
		restarts.WithLabelValues(name, reason)
	}
	return k, nil
}

// pid is the process of the present run; 0: it has not started.
func (k *kept) pid() int {
	if run, ok := (*k.current.Load()).(interface{ PID() int }); ok {
		return run.PID()
	}
	return 0
}

// Run serves until ctx ends. A first server that does not come up is an error.
func (k *kept) Run(ctx context.Context) error {
	err := k.engine.Run(ctx)
	select {
	case <-k.Ready():
	default:
		return err
	}
	first := true
	_ = keepRunning(ctx, func(ctx context.Context) error { // an engine that fails while it stops has stopped
		if first {
			first = false
			return err
		}
		next, err := k.again()
		if err != nil {
			return err
		}
		k.current.Store(&next)
		return next.Run(ctx)
	}, k.ended)
	return nil
}

// ended counts and logs the end of an engine. One that was stuck comes back sooner: after its start it refuses, for a
// while, what an analyst had it stuck in.
func (k *kept) ended(err error, wait time.Duration) time.Duration {
	reason := reasonEnded
	if isStuck(err) {
		reason, wait = reasonStuck, min(wait, 4*time.Second)
	}
	k.restarts.WithLabelValues(k.name, reason).Inc()
	k.log.Error("an embedded engine has ended, and is started again", "engine", k.name, "error", err, "in", wait)
	return wait
}

// isStuck tells of a ClickHouse child that has ended so that it is replaced.
func isStuck(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == statusStuck
}

// newRestarts counts how often engines were started again.
func newRestarts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millrace_engine_restarts_total",
		Help: "Starts of an embedded engine after it has ended by itself, or was stuck in a statement that it did " +
			"not end.",
	}, []string{"engine", "reason"})
}
