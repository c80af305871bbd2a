package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Check is one dependency that /ready asks after.
type Check struct {
	Name  string
	Probe func(ctx context.Context) error // nil: the dependency is up
	Need  Need                            // default Always
	// Note tells more of a dependency, up or down; it may be nil.
	Note func(ctx context.Context) Note
	// Timeout bounds a probe; default 2 s.
	Timeout time.Duration
}

// Need says what the process is without a dependency.
type Need uint8

const (
	Always  Need = iota // it is not ready
	AtFirst             // it is not ready until the dependency has been up once, and does its work without it then
	Never               // it does its work
)

// Note is what there is to say of a dependency beside its status.
type Note struct {
	Warning       string  `json:"warning,omitempty" doc:"What needs attention, though everything runs"`
	Behind        *uint64 `json:"behind,omitempty" doc:"Messages that are not yet counted" example:"0"`
	BehindSeconds float64 `json:"behind_seconds,omitempty" doc:"How long the first of them has waited"`
}

// CheckStatus is what /ready says of a dependency.
type CheckStatus struct {
	Name   string    `json:"name" example:"nats"`
	Status string    `json:"status" enum:"up,down"`
	Needed bool      `json:"needed" doc:"Whether the process is not ready while it is down"`
	Error  string    `json:"error,omitempty" doc:"Why it is down"`
	Since  time.Time `json:"since" doc:"When it came to this status"`
	Note
}

// Readiness is the answer of /ready.
type Readiness struct {
	Status string        `json:"status" enum:"ready,not ready"`
	Checks []CheckStatus `json:"checks"`
}

// readyFor is how long an answer is kept, so that many pollers cost no more
// than one.
const readyFor = time.Second

type readiness struct {
	probes []*probe
	mu     sync.Mutex // held while probing, so that callers share the result
	at     time.Time
	last   Readiness
}

func newReadiness(checks []Check) *readiness {
	r := &readiness{}
	for _, c := range checks {
		if c.Timeout == 0 {
			c.Timeout = 2 * time.Second
		}
		r.probes = append(r.probes, &probe{check: c})
	}
	return r
}

// now returns the state of all dependencies, at most a second old. It is
// independent of the request, whose end must not read as an outage.
func (r *readiness) now() Readiness {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < readyFor {
		return r.last
	}
	states := make([]CheckStatus, len(r.probes))
	var wg sync.WaitGroup
	for i, p := range r.probes {
		wg.Go(func() { states[i] = p.run() })
	}
	wg.Wait()
	r.last = Readiness{Status: "ready", Checks: states}
	for _, s := range states {
		if s.Needed && s.Status == "down" {
			r.last.Status = "not ready"
		}
	}
	r.at = time.Now()
	return r.last
}

type probe struct {
	check   Check
	state   CheckStatus
	seen    bool        // it has been up
	pending chan result // of a probe that outlived its timeout
}

type result struct {
	err  error
	note Note
}

// errNoAnswer is why a dependency is down that may only be busy. The page and
// others that read /ready know such errors by how they begin.
var errNoAnswer = errors.New("no answer in time")

func (p *probe) run() CheckStatus {
	found := p.ask()
	state := CheckStatus{Name: p.check.Name, Status: "up", Since: time.Now().UTC(), Note: found.note}
	if errors.Is(found.err, context.DeadlineExceeded) {
		found.err = fmt.Errorf("%w: %w", errNoAnswer, found.err)
	}
	if found.err != nil {
		state.Status, state.Error = "down", found.err.Error()
	}
	if state.Status == p.state.Status {
		state.Since = p.state.Since
	}
	p.seen = p.seen || found.err == nil
	state.Needed = p.check.Need == Always || p.check.Need == AtFirst && !p.seen
	p.state = state
	return state
}

// ask never runs two probes at once, even if one ignores its context.
func (p *probe) ask() result {
	ctx, cancel := context.WithTimeout(context.Background(), p.check.Timeout)
	defer cancel()
	select {
	case <-p.pending: // it came too late to be told as of now
		p.pending = nil
	default:
	}
	if p.pending == nil {
		pending := make(chan result, 1)
		p.pending = pending
		go func() { pending <- p.find(ctx) }()
	}
	select {
	case found := <-p.pending:
		p.pending = nil
		return found
	case <-ctx.Done():
		return result{err: errNoAnswer}
	}
}

func (p *probe) find(ctx context.Context) result {
	found := result{err: p.check.Probe(ctx)}
	if p.check.Note != nil {
		found.note = p.check.Note(ctx)
	}
	return found
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	state := s.Readiness()
	status := http.StatusOK
	if state.Status != "ready" {
		status = http.StatusServiceUnavailable
	}
	WriteJSON(w, status, state)
}

// Readiness is what /ready says.
func (s *Server) Readiness() Readiness {
	state := s.readiness.now()
	select {
	case <-s.leaving:
		state.Status = "not ready"
		state.Checks = append(slices.Clip(state.Checks), CheckStatus{
			Name: "server", Status: "down", Needed: true, Error: "it was told to stop", Since: s.left,
		})
	default:
	}
	return state
}
