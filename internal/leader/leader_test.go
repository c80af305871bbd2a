package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/retry"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// patience is how long a test waits for what has to happen.
const patience = time.Minute

// election is a database with candidates for one lead.
type election struct {
	*testing.T
	pool    *pgxpool.Pool
	leading atomic.Int32
}

func newElection(t *testing.T) *election {
	t.Parallel()
	return &election{T: t, pool: engine.Pool(t)}
}

// begun is a term that a candidate has begun.
type begun struct {
	leader.Term
	ctx context.Context
	end func(error) // ends the term by the candidate's own will
}

// candidate is a process that stands for the lead.
type candidate struct {
	e     *election
	terms chan begun
	stop  func()
}

// stand starts a candidate, on a network of its own, with a test's settings.
func (e *election) stand(network *embeddedtest.Network, silence time.Duration) *candidate {
	e.Helper()
	cfg := e.pool.Config()
	network.Configure(cfg)
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		e.Fatal(err)
	}
	c, err := leader.New(leader.Config{Name: "test", Key: 7, Retry: 10 * time.Millisecond, Silence: silence}, pool,
		embeddedtest.Log(e))
	if err != nil {
		e.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &candidate{e: e, terms: make(chan begun)}
	var running sync.WaitGroup
	running.Go(func() {
		defer pool.Close()
		if err := c.Run(ctx, out.lead); err != nil {
			e.Error(err)
		}
	})
	out.stop = func() { cancel(); running.Wait() }
	e.Cleanup(out.stop)
	return out
}

// lead leads until the lead is lost or the test ends the term.
func (c *candidate) lead(ctx context.Context, term leader.Term) error {
	c.e.leading.Add(1)
	defer c.e.leading.Add(-1)
	ended := make(chan error, 1)
	select {
	case c.terms <- begun{term, ctx, func(err error) { ended <- err }}:
	case <-ctx.Done():
		return nil
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// term waits until the candidate leads.
func (c *candidate) term() begun {
	c.e.Helper()
	select {
	case term := <-c.terms:
		return term
	case <-time.After(patience):
		c.e.Fatal("the candidate does not get the lead")
		panic("unreachable")
	}
}

// lost waits until a term's context has ended, and checks why.
func (e *election) lost(term begun) {
	e.Helper()
	select {
	case <-term.ctx.Done():
	case <-time.After(patience):
		e.Fatal("the leader does not find that it has lost the lead")
	}
	if cause := context.Cause(term.ctx); !errors.Is(cause, leader.ErrLost) {
		e.Errorf("the term has ended by %v", cause)
	}
}

// held asks, as a fenced statement does, whether a term has the lock.
func (e *election) held(term begun) (held bool) {
	e.Helper()
	backend, key := term.Lock()
	err := e.pool.QueryRow(e.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND pid = $1 AND (classid::bigint << 32 | objid::bigint) = $2)`, backend, key).Scan(&held)
	if err != nil {
		e.Fatal(err)
	}
	return held
}

// spoke returns when the leader of a term has spoken to Postgres last.
func (e *election) spoke(term begun) (at time.Time) {
	e.Helper()
	backend, _ := term.Lock()
	if err := e.pool.QueryRow(e.Context(), "SELECT query_start FROM pg_stat_activity WHERE pid = $1",
		backend).Scan(&at); err != nil {
		e.Fatalf("the leader's connection: %v", err)
	}
	return at
}

// TestOne: of many candidates one leads, and another one after it (invariants 1
// and 2).
func TestOne(t *testing.T) {
	e := newElection(t)
	var network embeddedtest.Network
	all := []*candidate{e.stand(&network, 0)}
	term := all[0].term()
	all = append(all, e.stand(&network, 0), e.stand(&network, 0))
	for range 3 {
		if !e.held(term) {
			t.Error("the leader has not got the lock")
		}
		term.end(nil)
		select {
		case term = <-all[0].terms:
		case term = <-all[1].terms:
		case term = <-all[2].terms:
		case <-time.After(patience):
			t.Fatal("nobody leads")
		}
		if n := e.leading.Load(); n != 1 {
			t.Errorf("%d lead", n)
		}
	}
}

// warnings counts what is logged as a warning or worse.
type warnings struct{ n atomic.Int32 }

func (w *warnings) Write(p []byte) (int, error) {
	w.n.Add(1)
	return len(p), nil
}

// TestFailures: of failures in a row the first is a warning, and so is the first after a term that has worked.
func TestFailures(t *testing.T) {
	e := newElection(t)
	var told warnings
	c, err := leader.New(leader.Config{Name: "test", Key: 7, Retry: 10 * time.Millisecond}, e.pool,
		slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var terms, before int32
	_ = c.Run(ctx, func(ctx context.Context, _ leader.Term) error {
		switch terms++; terms {
		case 3:
			if n := told.n.Load(); n != 1 {
				t.Errorf("%d warnings of two failures in a row", n)
			}
			retry.Well(ctx)
		case 4:
			before = told.n.Load()
			cancel()
		}
		return errors.New("the work fails")
	})
	if before != 2 {
		t.Errorf("%d warnings after a failure that ended a term which worked, want another one", before)
	}
}

// TestStopped: a candidate that is stopped while it leads leaves the lead to
// another, but not before its term has ended (invariants 2 and 4).
func TestStopped(t *testing.T) {
	e := newElection(t)
	ending, finish := make(chan begun), make(chan struct{})
	c, err := leader.New(leader.Config{Name: "test", Key: 7}, e.pool, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		_ = c.Run(ctx, func(ctx context.Context, term leader.Term) error {
			cancel()
			<-ctx.Done()
			ending <- begun{Term: term}
			<-finish
			return nil
		})
	})
	term := <-ending
	var network embeddedtest.Network
	second := e.stand(&network, 0)
	for begin, spoken := e.spoke(term), 0; spoken < 3; {
		if last := e.spoke(term); !last.Equal(begin) {
			begin, spoken = last, spoken+1
		}
	}
	close(finish)
	running.Wait()
	second.term()
}

// TestConnectionLost: a leader whose connection has ended ends its term; then it,
// or another, leads (invariants 2 and 4).
func TestConnectionLost(t *testing.T) {
	e := newElection(t)
	var network embeddedtest.Network
	c := e.stand(&network, 0)
	term := c.term()
	backend, _ := term.Lock()
	if _, err := e.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1)", backend); err != nil {
		t.Fatal(err)
	}
	e.lost(term)
	if again := c.term(); again.Term == term.Term || !e.held(again) || e.held(term) {
		t.Errorf("the terms are %+v and %+v", term.Term, again.Term)
	}
}

// TestServerAway: a candidate without a server tries until there is one, also when
// it has led before.
func TestServerAway(t *testing.T) {
	e := newElection(t)
	var network embeddedtest.Network
	mend := network.Cut()
	c := e.stand(&network, 500*time.Millisecond)
	for range 2 {
		for end := time.Now().Add(patience); network.Refused() < 3; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the candidate does not try again")
			}
		}
		mend()
		term := c.term()
		mend = network.Cut()
		e.lost(term)
	}
}

// TestSilence: a stalled leader loses the lead to another without
// knowing. A statement that asks for its lock finds out, and it does itself when it
// goes on (invariant 3).
func TestSilence(t *testing.T) {
	e := newElection(t)
	var frozen, sound embeddedtest.Network
	first := e.stand(&frozen, 500*time.Millisecond)
	term := first.term()
	thaw := frozen.Freeze()
	t.Cleanup(thaw)
	second := e.stand(&sound, 0)
	successor := second.term()
	if e.held(term) || !e.held(successor) {
		t.Error("the lock has not gone over to the successor")
	}
	thaw()
	e.lost(term)
}

// TestErrors: an error of a leader ends its term, and the next one begins.
func TestErrors(t *testing.T) {
	e := newElection(t)
	var network embeddedtest.Network
	c := e.stand(&network, 0)
	for range 3 {
		c.term().end(errors.New("failed"))
	}
	c.term()
}

func TestConfig(t *testing.T) {
	t.Parallel()
	pool, log := engine.Pool(t), embeddedtest.Log(t)
	for names, cfg := range map[string]leader.Config{
		"Key":     {Name: "test"},
		"Name":    {Key: 1},
		"Retry":   {Name: "test", Key: 1, Retry: -1},
		"Silence": {Name: "test", Key: 1, Silence: time.Millisecond},
	} {
		if _, err := leader.New(cfg, pool, log); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	if _, err := leader.New(leader.Config{Name: "test", Key: 1}, nil, log); err == nil {
		t.Error("it does without a pool")
	}
}
