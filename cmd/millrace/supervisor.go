package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/retry"
)

// restartWait is how long what has ended by itself stays away at first, and restartMost how long at most.
const (
	restartWait = 250 * time.Millisecond
	restartMost = 30 * time.Second
)

// settled is for how long something has to run before its next wait is the first one again.
const settled = time.Minute

// keepRunning calls run until ctx ends, and again after it has ended by itself. It waits restartWait before that,
// and twice as long each time, up to restartMost. ended gets each error and wait, and may shorten the wait. It
// returns the error of the call that ctx has ended.
func keepRunning(
	ctx context.Context, run func(context.Context) error, ended func(err error, wait time.Duration) time.Duration,
) error {
	for wait := restartWait; ; wait = min(2*wait, restartMost) {
		began := time.Now()
		err := run(ctx)
		if ctx.Err() != nil {
			return err
		}
		if time.Since(began) >= settled {
			wait = restartWait
		}
		wait = ended(err, wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// proven is for how long a part that has failed has to run before it counts as on.
const proven = 10 * time.Second

// failsAfter is for how long what a part tries again has to fail before the part counts as off.
const failsAfter = time.Minute

// supervisor runs the parts of systems. A part that ends by itself is run again, while the others go on. It also tells
// of parts in which something is tried again and again.
type supervisor struct {
	log      *slog.Logger
	registry prometheus.Registerer
	restarts *prometheus.CounterVec // by system and part
	bound    time.Duration          // failsAfter; tests need less
	parts    []*supervised
	noted    []*supervised // parts, and what runs beside them
	left     []httpapi.Off // systems that are off for as long as the process runs
}

// newSupervisor makes a supervisor of nothing.
func newSupervisor(reg prometheus.Registerer, log *slog.Logger) *supervisor {
	v := &supervisor{log: log, registry: reg, bound: failsAfter, restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millrace_part_restarts_total",
		Help: "Starts of a part of a system after it has failed.",
	}, []string{"system", "part"})}
	reg.MustRegister(v.restarts)
	return v
}

// leaveOut notes that a system is off, and why.
func (v *supervisor) leaveOut(system, reason string) {
	v.log.Warn("a system is off", "system", system, "reason", reason)
	v.left = append(v.left, httpapi.Off{System: system, Reason: reason})
}

// add adds a part. None may be added after Run.
func (v *supervisor) add(system string, p part) {
	one := v.note(system, p)
	one.restarts = v.restarts.WithLabelValues(system, p.name)
	v.parts = append(v.parts, one)
}

// note tells of what a part tries again, which somebody else may run.
func (v *supervisor) note(system string, p part) *supervised {
	one := &supervised{part: p, system: system, log: v.log.With("system", system, "part", p.name)}
	v.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "millrace_part_failing_seconds",
		Help: "For how long a part of a system has failed in what it tries again, from the first failure in a row to " +
			"the latest one; 0: it does not.",
		ConstLabels: prometheus.Labels{"system": system, "part": p.name},
	}, func() float64 { return one.faults.Longest().Lasted().Seconds() }))
	v.noted = append(v.noted, one)
	return one
}

// Run runs all parts until ctx ends. Then the systems end one after the other, the last one first: what ends may still
// need those that were added before it, as workers need the queues. It returns the errors of all parts.
func (v *supervisor) Run(ctx context.Context) error {
	errs := make([]error, len(v.parts))
	cancels, done := make([]context.CancelFunc, len(v.parts)), make([]chan struct{}, len(v.parts))
	for i, p := range v.parts {
		var running context.Context
		running, cancels[i] = context.WithCancel(context.WithoutCancel(ctx))
		done[i] = make(chan struct{})
		go func() {
			defer close(done[i])
			errs[i] = p.keep(running)
		}()
	}
	_ = retry.Every(ctx, v.bound/4, func(context.Context) error { v.tell(); return nil }, nil)
	for last := len(v.parts); last > 0; {
		first := last - 1
		for first > 0 && v.parts[first-1].system == v.parts[last-1].system {
			first--
		}
		for i := first; i < last; i++ {
			cancels[i]()
		}
		for i := first; i < last; i++ {
			<-done[i]
		}
		last = first
	}
	return errors.Join(errs...)
}

// off returns what is off, and why.
func (v *supervisor) off() []httpapi.Off {
	off := append([]httpapi.Off{}, v.left...)
	for _, p := range v.noted {
		if one, is := p.off(v.bound); is {
			off = append(off, one)
		}
	}
	return off
}

// tell logs which parts have begun to fail, and which do no more.
func (v *supervisor) tell() {
	for _, p := range v.noted {
		p.tell(v.bound)
	}
}

// supervised is a part that is run again after it has failed.
type supervised struct {
	part
	system   string
	log      *slog.Logger
	restarts prometheus.Counter
	faults   retry.Faults // of what it tries again itself
	told     bool         // of the present one of these

	mu      sync.Mutex
	running bool
	began   time.Time // the present run
	failed  error     // why the one before has ended; nil: there was none, or this one is proven
	since   time.Time // when it failed first
}

// keep runs the part until ctx ends.
func (p *supervised) keep(ctx context.Context) error {
	return keepRunning(ctx, func(ctx context.Context) error {
		p.start()
		return p.noting(ctx)
	}, func(err error, wait time.Duration) time.Duration {
		p.fail(err, wait)
		return wait
	})
}

// noting runs the part once.
func (p *supervised) noting(ctx context.Context) error { return p.run(p.faults.Note(ctx)) }

func (p *supervised) start() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running, p.began = true, time.Now()
	if p.failed != nil {
		p.restarts.Inc()
	}
}

// errEnded is why a part is off that has ended without an error.
var errEnded = errors.New("it has ended by itself")

func (p *supervised) fail(err error, wait time.Duration) {
	if err == nil {
		err = errEnded
	}
	p.log.Error("a part of a system has failed, and is restarted", "error", err, "retry_in", wait)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.failed == nil || now.Sub(p.began) >= proven {
		p.since = now.UTC()
	}
	p.running, p.failed = false, err
}

// off tells whether the part is off: it waits for its next start, or has not run for long since it failed, or has
// failed for longer than bound in what it tries again.
func (p *supervised) off(bound time.Duration) (off httpapi.Off, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	off = httpapi.Off{System: p.system, Part: p.name}
	if p.failed != nil && (!p.running || time.Since(p.began) < proven) {
		since := p.since
		off.Reason, off.Since = p.failed.Error(), &since
		return off, true
	}
	fault, fails := p.fault(bound)
	if fails {
		since := fault.Since.UTC()
		off.Reason, off.Since = fault.Err.Error(), &since
	}
	return off, fails
}

// fault returns what the part fails in.
func (p *supervised) fault(bound time.Duration) (fault retry.Fault, fails bool) {
	fault = p.faults.Longest()
	return fault, fault.Err != nil && fault.Lasted() >= bound
}

// tell logs whether the part has begun to fail in what it tries again, or does no more.
func (p *supervised) tell(bound time.Duration) {
	fault, fails := p.fault(bound)
	switch {
	case fails == p.told:
	case fails:
		p.log.Error("a part of a system fails again and again", "error", fault.Err, "since", fault.Since.UTC())
	default:
		p.log.Info("a part of a system works again")
	}
	p.told = fails
}
