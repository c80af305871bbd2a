package projector

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/store"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestAlive: a projector keeps its group while it does something for longer
// than its lease, not while what it does fails, and stops when it has been
// replaced.
func TestAlive(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	owned := func(name string) *checkpoint.Log {
		l, err := checkpoint.Open(t.Context(), kv, "group", name, 0)
		check(err)
		return l
	}
	keys, err := keystore.Open(t.Context(), t.TempDir(), keystore.Options{})
	check(err)
	defer keys.Close()
	db, err := store.Open(&clickhouse.Options{Addr: []string{"127.0.0.1:1"}}, slog.New(slog.DiscardHandler))
	check(err)
	defer db.Close()
	a := &term{
		group:     &group{Projector: &Projector{cfg: Config{Lease: 60 * time.Millisecond}}},
		decisions: owned("a"), keys: keys, db: db,
	}
	check(a.decisions.Take(t.Context()))
	check(a.decisions.Decide(t.Context(), 0, 10))

	check(a.alive(t.Context(), func(ctx context.Context) error {
		for before, renewed := owned("b").Revision(), 0; renewed < 3; {
			if now := owned("b").Revision(); now != before {
				before, renewed = now, renewed+1
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}))

	failing, stop := context.WithCancel(t.Context())
	refused, ended := make(chan struct{}, 100), make(chan struct{})
	go func() {
		_ = db.Retry(failing, "ask", func(context.Context) error { refused <- struct{}{}; return errors.New("refused") }) // until it is stopped
		close(ended)
	}()
	<-refused
	<-refused // the first one is known by now
	before := a.decisions.Revision()
	if err := a.renew(t.Context(), time.Now()); err != nil || a.decisions.Revision() != before {
		t.Errorf("one whose database fails says that it is alive: %v", err)
	}
	a.durable.Store(10) // nothing is under way but a read for the next batch
	if err := a.rest(t.Context()); err != nil || a.decisions.Revision() != before {
		t.Errorf("one whose database fails says that it is alive and idle: %v", err)
	}
	stop()
	<-ended
	if err := a.renew(t.Context(), time.Now().Add(-time.Hour)); err != nil || a.decisions.Revision() != before {
		t.Errorf("one that does the same for an hour says that it is alive: %v", err)
	}

	err = a.alive(t.Context(), func(ctx context.Context) error {
		check(owned("b").Take(ctx))
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, checkpoint.ErrLost) {
		t.Errorf("one that was replaced goes on: %v", err)
	}
}
