package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// ErrStuck is the error of a server whose engine did not end a statement when it
// was told to. The statement still runs in a thread that nothing can end but the
// end of the process.
var ErrStuck = errors.New("the ClickHouse engine does not end a statement")

var (
	errTimeLimit = errors.New("the statement's time is over")
	errStopping  = errors.New("the server stops")
)

// job is a statement and what it may take.
type job struct {
	from  origin
	text  string
	proof proof // of an analyst's statement
	limit time.Duration
	// lasting statements have the engine do work that it finishes even when the
	// statement is cancelled, such as a merge. A client's cancel is then no reason
	// to replace the engine; the time limit is.
	lasting bool
}

// origin is who sent a statement.
type origin struct {
	who         account
	login, addr string // addr is the client's address without its port
}

// emitter takes a chunk of a result. Its error ends the query.
type emitter func(chdb.Chunk) error

// supervise runs work, a statement in the engine, and cancels it when its time is
// over. Work that has not ended a while after it was cancelled is left behind:
// the answer is then an error that [isStuck] tells, the statement's session must
// not be used again, and the server ends with [ErrStuck].
func (e *engine) supervise(ctx context.Context, j job, emit emitter, work func(context.Context, emitter) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, j.limit, errTimeLimit)
	defer cancel()
	g := &gate{}
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, g.guard(emit)) }()
	select {
	case err := <-ended:
		return j.explain(ctx, err)
	case <-ctx.Done():
	}
	if j.lasting && !errors.Is(context.Cause(ctx), errTimeLimit) && !errors.Is(context.Cause(ctx), errStopping) {
		late := time.NewTimer(j.limit)
		defer late.Stop()
		select {
		case err := <-ended:
			return j.explain(ctx, err)
		case <-late.C:
		}
	}
	if err, ok := e.obeys(g, ended); ok {
		return j.explain(ctx, err)
	}
	e.giveUp(j)
	return &stuckError{exception(codeTimeout, "TIMEOUT_EXCEEDED",
		"The engine did not end this statement within %s after it was told to, and is replaced", e.patience)}
}

// obeys waits until work has ended, which is true, or has gone on for the
// engine's patience. Time in which the work waits for the client, or in which
// this process does not run, does not count.
func (e *engine) obeys(g *gate, ended <-chan error) (err error, ok bool) {
	const step = 100 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for waited, last := time.Duration(0), time.Now(); ; {
		select {
		case err := <-ended:
			return err, true
		case now := <-tick.C:
			waited += min(now.Sub(last), 2*step)
			last = now
		}
		switch {
		case g.waits():
			waited = 0 // it has got as far as the client
		case waited >= e.patience && g.shut():
			return nil, false
		}
	}
}

// giveUp has the engine replaced on account of a statement.
func (e *engine) giveUp(j job) {
	text := j.text
	if len(text) > 200 {
		text = text[:200]
	}
	e.log.Error("the engine does not end a statement, and is replaced", "login", j.from.login, "client", j.from.addr,
		"after", e.patience, "statement", text)
	if j.from.who == reader {
		if err := e.penalties.note(j.from, j.text, j.proof); err != nil {
			e.log.Error("cannot note that a statement had to be killed", "error", err)
		}
	}
	select {
	case e.stuck <- fmt.Errorf("%w of %s from %s", ErrStuck, j.from.login, j.from.addr):
	default: // it is being replaced already
	}
}

// keep holds what a statement that was left behind may still use: a file that
// was closed could have its number taken by another one.
func (e *engine) keep(used ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept, used...)
}

// explain makes the error of a statement that was cancelled when its time was
// over say so.
func (j job) explain(ctx context.Context, err error) error {
	var e *chdb.Exception
	if err == nil || !errors.Is(context.Cause(ctx), errTimeLimit) || !errors.As(err, &e) || e.Code != codeCancelled {
		return err
	}
	return exception(codeTimeout, "TIMEOUT_EXCEEDED", "Timeout exceeded: the statement's time is over (at most %s)",
		j.limit)
}

// stuckError answers the client of a statement that was left behind.
type stuckError struct{ *chdb.Exception }

func (e *stuckError) Unwrap() error { return e.Exception }

func isStuck(err error) bool {
	var s *stuckError
	return errors.As(err, &s)
}

// gate lets the chunks of a result through to its client until it is shut.
type gate struct {
	mu         sync.Mutex
	busy, gone bool
}

func (g *gate) guard(emit emitter) emitter {
	return func(c chdb.Chunk) error {
		if !g.enter() {
			return ErrStuck
		}
		defer g.leave()
		return emit(c)
	}
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = !g.gone
	return g.busy
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy = false
}

// waits is true while a chunk is on its way through.
func (g *gate) waits() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy
}

// shut closes the gate, unless a chunk is on its way through.
func (g *gate) shut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone = !g.busy
	return g.gone
}
