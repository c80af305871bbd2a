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
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

const name = "COUNTED"

var errKilled, errDone = errors.New("killed"), errors.New("all is there")

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
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// Who has folded the last message ends both: the other may have begun behind it.
	ctx, finish := context.WithCancelCause(limited)
	defer finish(nil)
	// session folds until it is killed, or all is there. A row for each message is all that
	// is stored: nothing else keeps it from being there twice.
	session := func(rng *rand.Rand) error {
		crash := func() error {
			if rng.IntN(9) == 0 {
				return errKilled
			}
			return nil
		}
		first := func(context.Context) (uint64, error) { return 0, nil }
		err := pglease.Fold(ctx, pglease.Config{
			Stream: name, Consumer: "counted", BatchMessages: 1 + rng.IntN(20), First: first,
		}, pglease.Deps{NATS: nc, JS: js, Postgres: pool, Log: slog.New(slog.DiscardHandler)},
			func(ctx context.Context, l *pglease.Lease, b pglease.Batch) error {
				if err := crash(); err != nil {
					return err
				}
				err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
					var batch pgx.Batch
					for _, m := range b.Messages {
						batch.Queue("INSERT INTO counted (seq) VALUES ($1)", int64(m.Seq))
					}
					l.Move(&batch, b.To)
					return errors.Join(tx.SendBatch(ctx, &batch).Close(), crash())
				})
				if err = l.Moved(err, b.To); err == nil && b.To == n {
					finish(errDone)
				}
				return errors.Join(err, crash())
			})
		if errors.Is(context.Cause(ctx), errDone) {
			return errDone
		}
		return err
	}
	var readers sync.WaitGroup
	ends := make([]map[error]int, 2)
	for i := range ends {
		readers.Go(func() {
			ends[i] = map[error]int{}
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for {
				err := session(rng)
				for _, known := range []error{errKilled, pglease.ErrLost} {
					if errors.Is(err, known) {
						ends[i][known]++
						err = nil
					}
				}
				var at uint64
				if l, failed := pglease.Open(ctx, pool, name, nil); failed == nil {
					at, _ = l.Position()
				}
				if at == n || errors.Is(err, errDone) {
					return
				}
				if err != nil {
					t.Error(err)
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

// TestMadeAnew: a stream that was deleted and made anew is read from its start, however long it is
// by the time at which somebody looks, and before a first message has come as well as after.
func TestMadeAnew(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	nc, js := srv.Connect(), srv.JetStream()
	pool := engine.Pool(t, queue.Configure)
	fill := func(n int, text string) {
		t.Helper()
		if err := js.DeleteStream(t.Context(), name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{"counted"}})
		for range n {
			if err == nil {
				_, err = js.Publish(t.Context(), "counted", []byte(text))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// session folds until it has seen n messages, or it fails.
	session := func(begun func(), n int) (texts []string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = pglease.Fold(ctx, pglease.Config{
			Stream: name, Consumer: "counted", First: func(context.Context) (uint64, error) { return 0, nil },
		}, pglease.Deps{NATS: nc, JS: js, Postgres: pool, Log: slog.New(told{begun})},
			func(ctx context.Context, l *pglease.Lease, b pglease.Batch) error {
				var batch pgx.Batch
				l.Move(&batch, b.To)
				if err := l.Moved(pool.SendBatch(ctx, &batch).Close(), b.To); err != nil {
					return err
				}
				for _, m := range b.Messages {
					texts = append(texts, string(m.Data))
				}
				if len(texts) >= n {
					cancel()
				}
				return nil
			})
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return texts, err
	}
	all := func(n int, text string) {
		t.Helper()
		if got, err := session(nil, n); err != nil || len(got) != n || got[0] != text || got[n-1] != text {
			t.Fatalf("messages %q, %v; want %d of %q", got, err, n, text)
		}
	}
	fill(5, "first")
	all(5, "first")
	fill(8, "second")
	all(8, "second")
	got, err := session(func() { fill(12, "third") }, 12) // it has begun behind the second, and had nothing to read
	if err == nil || len(got) > 0 {
		t.Errorf("a session whose stream was replaced: %q, %v", got, err)
	}
	all(12, "third")
}

// told is a handler of logs that calls a function when a fold has begun.
type told struct{ begun func() }

func (h told) Enabled(context.Context, slog.Level) bool { return h.begun != nil }
func (h told) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h told) WithGroup(string) slog.Handler            { return h }

func (h told) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "folding" {
		h.begun()
	}
	return nil
}

// TestRenewMeanwhile: a lease is renewed while a transaction moves the position, and when it
// has, and its process does not know yet.
func TestRenewMeanwhile(t *testing.T) {
	pool := engine.Pool(t, queue.Configure)
	ctx := t.Context()
	l, err := pglease.Open(ctx, pool, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	for at := uint64(1); at <= 50; at++ {
		done := make(chan error, 1)
		go func() {
			var b pgx.Batch
			l.Move(&b, at)
			err := pool.SendBatch(ctx, &b).Close()
			if renewed := l.Renew(ctx); renewed != nil {
				t.Error("after the transaction: ", renewed)
			}
			done <- l.Moved(err, at)
		}()
		for moved := false; !moved; {
			if err := l.Renew(ctx); err != nil {
				t.Error("meanwhile: ", err)
			}
			select {
			case err := <-done:
				if moved = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
	}
}
