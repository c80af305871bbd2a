package pglease_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/input"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

const name = "COUNTED"

// rows is a view of a stream: a row for each message, which nothing else keeps from
// being there twice.
type rows struct {
	pool  *pgxpool.Pool
	lease *pglease.Lease
	crash func() error
	open  []uint64
}

func (r *rows) Stored(context.Context) (fold.Stored, error)               { return fold.Stored{}, nil }
func (r *rows) Open(context.Context, uint64) (fold.View[[]uint64], error) { return r, nil }
func (r *rows) Failing() bool                                             { return false }
func (r *rows) Announce([]uint64, time.Duration)                          {}
func (r *rows) Take(m input.Message) (full bool) { r.open = append(r.open, m.Seq); return false }

func (r *rows) Seal(context.Context, fold.Cut) (batch []uint64, _ string, _ error) {
	batch, r.open = r.open, nil
	return batch, "", nil
}

func (r *rows) Write(ctx context.Context, batch []uint64) error {
	if err := r.crash(); err != nil {
		return err
	}
	last := batch[len(batch)-1]
	err := pgx.BeginFunc(ctx, r.pool, func(tx pgx.Tx) error {
		var b pgx.Batch
		for _, seq := range batch {
			b.Queue("INSERT INTO counted (seq) VALUES ($1)", int64(seq))
		}
		r.lease.Move(&b, last)
		return errors.Join(tx.SendBatch(ctx, &b).Close(), r.crash())
	})
	return errors.Join(r.lease.Moved(err, last), r.crash())
}

var errKilled = errors.New("killed")

// TestOnce: each message counts once, though sessions are killed before, in and after the
// transaction, and two of them fold at the same time.
func TestOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	srv := natstest.Start(t, stream.Config{})
	nc, js := srv.Connect(), srv.JetStream()
	pool := engine.Pool(t, queue.Configure)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := pool.Exec(t.Context(), "CREATE TABLE counted (seq bigint NOT NULL)")
	must(err)
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"counted"}})
	must(err)
	const n = 600
	for range n {
		_, err := js.Publish(t.Context(), "counted", nil)
		must(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	session := func(rng *rand.Rand) (at uint64, err error) {
		lease, err := pglease.Open(ctx, pool, name, nil)
		if err != nil {
			return 0, err
		}
		if at, _ = lease.Position(); at == n {
			return at, nil
		}
		log := slog.New(slog.DiscardHandler)
		f, err := fold.New(fold.Config{BatchMessages: 1 + rng.IntN(20), MinInterval: time.Millisecond, Upto: n}, fold.Deps{
			Input: input.NewStream(input.Config{Stream: name, Consumer: "counted"}, nc, js, log), Lease: lease, Log: log,
		}, &rows{pool: pool, lease: lease, crash: func() error {
			if rng.IntN(9) == 0 {
				return errKilled
			}
			return nil
		}})
		if err != nil {
			return 0, err
		}
		return at, f.Run(ctx)
	}
	var readers sync.WaitGroup
	ends := make([]map[error]int, 2)
	for i := range ends {
		readers.Go(func() {
			ends[i] = map[error]int{}
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				at, err := session(rng)
				for _, known := range []error{errKilled, pglease.ErrLost} {
					if errors.Is(err, known) {
						ends[i][known]++
						err = nil
					}
				}
				if err != nil {
					t.Error(err)
				}
				if at == n || err != nil {
					return
				}
			}
		})
	}
	readers.Wait()
	found, err := pool.Query(t.Context(), "SELECT seq FROM counted ORDER BY seq")
	must(err)
	got, err := pgx.CollectRows(found, pgx.RowTo[uint64])
	must(err)
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("row %d is of message %d", i+1, seq)
		}
	}
	if ends[0][errKilled] == 0 || ends[0][pglease.ErrLost]+ends[1][pglease.ErrLost] == 0 || len(got) != n {
		t.Errorf("%d rows, want %d; the sessions ended by %s", len(got), n, fmt.Sprint(ends))
	}
}

// TestMoves: a lease that another process has moved renews, moves and rewinds nothing,
// and a batch that did not move the position is noticed.
func TestMoves(t *testing.T) {
	pool := engine.Pool(t, queue.Configure)
	ctx := t.Context()
	open := func(first uint64) *pglease.Lease {
		t.Helper()
		l, err := pglease.Open(ctx, pool, name, func(context.Context) (uint64, error) { return first, nil })
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a := open(7)
	b := open(8) // there is a position by now
	if at, to := b.Position(); at != 7 || to != 7 {
		t.Fatalf("the second is at %d, %d", at, to)
	}
	if err := errors.Join(a.Renew(ctx), a.Save(ctx, 9), a.Done(ctx, 9, 0), a.Decide(ctx, 9, 12, "")); err != nil {
		t.Fatal(err)
	}
	if err := a.Decide(ctx, 12, 15, ""); err == nil {
		t.Error("a batch follows one that has not moved the position")
	}
	for what, err := range map[string]error{
		"renew": b.Renew(ctx), "save": b.Save(ctx, 10), "rest": b.Done(ctx, 7, 0), "rewind": b.Done(ctx, 0, 0),
	} {
		if !errors.Is(err, pglease.ErrLost) {
			t.Errorf("%s of one that was overtaken: %v", what, err)
		}
	}
	if err := errors.Join(a.Done(ctx, 0, 0), a.Release(ctx)); err != nil {
		t.Fatal(err)
	}
	if at, _ := open(3).Position(); at != 0 {
		t.Errorf("after the stream was made anew the position is %d", at)
	}
}
