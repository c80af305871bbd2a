package clickhouse

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
)

// idle is an engine that runs nothing but what a test supervises.
func idle(t *testing.T) *engine {
	t.Helper()
	p, err := loadPenalties(filepath.Join(t.TempDir(), "penalties.json"))
	if err != nil {
		t.Fatal(err)
	}
	return &engine{
		log: slog.New(slog.DiscardHandler), patience: 300 * time.Millisecond, penalties: p,
		stuck: make(chan error, 1),
	}
}

func (e *engine) replaced() bool {
	select {
	case err := <-e.stuck:
		return errors.Is(err, ErrStuck)
	default:
		return false
	}
}

var cancelled = exception(codeCancelled, "QUERY_WAS_CANCELLED", "Query was cancelled")

// work is a statement in the engine, of one test.
type work func(*testing.T) func(context.Context, emitter) error

// obedient ends when it is told to, stubborn when the test does.
func obedient(*testing.T) func(context.Context, emitter) error {
	return func(ctx context.Context, _ emitter) error {
		<-ctx.Done()
		return cancelled
	}
}

func stubborn(t *testing.T) func(context.Context, emitter) error {
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	return func(context.Context, emitter) error { <-end; return nil }
}

func endsWith(err error) work {
	return func(*testing.T) func(context.Context, emitter) error {
		return func(context.Context, emitter) error { return err }
	}
}

func codeOf(err error) int {
	var e *chdb.Exception
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code
}

// inVirtualTime has a test wait without waiting, however slow the machine is.
func inVirtualTime(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func TestSupervise(t *testing.T) {
	nothing := func(chdb.Chunk) error { return nil }
	cancel := func(reason error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		return ctx
	}
	analyst := origin{who: reader, login: "analyst", addr: "10.0.0.1"}
	for name, c := range map[string]struct {
		ctx         context.Context
		job         job
		work        work
		code        int
		stuck, held bool // the engine is replaced; the statement has a penalty
	}{
		"ends by itself": {t.Context(), job{limit: time.Minute}, endsWith(nil), 0, false, false},
		"fails by itself": {
			t.Context(),
			job{limit: time.Minute},
			endsWith(errReadOnly()), codeReadOnly,
			false, false,
		},
		"obeys its time limit": {
			t.Context(),
			job{limit: time.Millisecond},
			obedient, codeTimeout, false,
			false,
		},
		"obeys a cancel": {cancel(nil), job{limit: time.Minute}, obedient, codeCancelled, false, false},
		"ignores its time limit": {
			t.Context(),
			job{limit: time.Millisecond},
			stubborn, codeTimeout, true,
			false,
		},
		"ignores a cancel": {cancel(nil), job{limit: time.Minute}, stubborn, codeTimeout, true, false},
		"of an analyst": {
			cancel(nil),
			job{limit: time.Minute, from: analyst},
			stubborn, codeTimeout,
			true, true,
		},
		"lasting, ignores a time limit": {
			t.Context(),
			job{limit: time.Millisecond, lasting: true},
			stubborn,
			codeTimeout, true, false,
		},
		"lasting, ignores the stop": {
			cancel(errStopping),
			job{limit: time.Minute, lasting: true},
			stubborn,
			codeTimeout, true, false,
		},
	} {
		t.Run(name, inVirtualTime(func(t *testing.T) {
			e := idle(t)
			c.job.text = "SELECT 1"
			err := e.supervise(c.ctx, c.job, nothing, c.work(t))
			if codeOf(err) != c.code || isStuck(err) != c.stuck || e.replaced() != c.stuck {
				t.Errorf("%v", err)
			}
			if held := e.penalties.check(c.job.from, c.job.text, c.job.proof) != nil; held != c.held {
				t.Errorf("it has a penalty: %v", held)
			}
		}))
	}
}

// TestSuperviseLasting: what the engine finishes in any case is waited for.
func TestSuperviseLasting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := e.supervise(ctx, job{limit: time.Minute, lasting: true}, nil, func(context.Context, emitter) error {
			time.Sleep(3 * e.patience) // a merge
			return cancelled
		})
		if codeOf(err) != codeCancelled || e.replaced() {
			t.Error(err)
		}
	})
}

// TestSuperviseSlowClient: the engine is not replaced for a client that does not
// read, and nothing reaches a client behind its error.
func TestSuperviseSlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := idle(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := e.supervise(ctx, job{limit: time.Minute}, func(chdb.Chunk) error {
			time.Sleep(3*e.patience - e.patience/6)
			return nil
		}, func(_ context.Context, emit emitter) error {
			if err := emit(chdb.Chunk{}); err != nil {
				return err
			}
			time.Sleep(e.patience / 2) // the engine's patience begins when the client has read
			return cancelled
		})
		if codeOf(err) != codeCancelled || e.replaced() {
			t.Error(err)
		}
		late, reached := make(chan error, 1), false
		goOn := make(chan struct{})
		err = e.supervise(ctx, job{limit: time.Minute}, func(chdb.Chunk) error { reached = true; return nil },
			func(_ context.Context, emit emitter) error {
				<-goOn
				late <- emit(chdb.Chunk{})
				return nil
			})
		close(goOn)
		if !isStuck(err) || !errors.Is(<-late, ErrStuck) || reached {
			t.Errorf("%v; the client is reached: %v", err, reached)
		}
	})
}
