package tracking_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// store is a store for tests; newQueues has its work queues run.
type store struct {
	*tracking.Store
	*trackingtest.Site
}

func (s *store) Pool() *pgxpool.Pool { return s.Store.Pool() }

func (s *store) Sweep(ctx context.Context) error { return s.Queues().Sweep(ctx) }

// Take takes items as HTTP does, when the stream and Postgres are in step.
func (s *store) Take(
	ctx context.Context, stage shard.Stage, worker string, limit int, lease time.Duration,
) ([]queue.Result, error) {
	s.InStep()
	return s.take(ctx, stage, worker, limit, lease)
}

func (s *store) take(
	ctx context.Context, stage shard.Stage, worker string, limit int, lease time.Duration,
) ([]queue.Result, error) {
	return s.Hands.Take(ctx, stage.String(), worker, limit, lease)
}

func newStore(t testing.TB) *store {
	t.Helper()
	site := trackingtest.New(t, &engine)
	return &store{site.Store, site}
}

func newQueues(t testing.TB) *store {
	t.Helper()
	site := trackingtest.Start(t, &engine)
	return &store{site.Store, site}
}

// fill registers files with shards from 0 and finishes their generation.
func fill(t testing.TB, s *store, shards int, files ...string) {
	t.Helper()
	list := make([]int32, shards)
	for i := range list {
		list[i] = int32(i)
	}
	for _, f := range files {
		if _, err := s.Register(t.Context(), []tracking.Registration{{Filename: f, Shards: list}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.FinishIngest(t.Context(), f, queue.Command{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWay(t *testing.T) {
	s := newQueues(t)
	fill(t, s, 2, "a")
	for _, stage := range shard.Queues {
		taken, err := s.Take(t.Context(), stage, "w", 10, time.Minute)
		if err != nil || len(taken) != 2 {
			t.Fatalf("%s: took %v, %v", stage, taken, err)
		}
		var commands []queue.Command
		for _, r := range taken {
			commands = append(commands, queue.Command{ID: r.ID, Generation: r.Generation})
		}
		done, err := s.Apply(t.Context(), stage, item.Complete, commands)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range done {
			if r.Outcome != item.Changed || r.Status != item.Done {
				t.Errorf("%s: %+v", stage, r)
			}
		}
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}
