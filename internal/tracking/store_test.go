package tracking_test

import (
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

func newStore(t testing.TB, cfg tracking.Config) *tracking.Store {
	t.Helper()
	s, err := tracking.New(cfg, engine.Pool(t, tracking.Configure), embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fill registers files with shards from 0 and finishes their generation.
func fill(t testing.TB, s *tracking.Store, shards int, files ...string) {
	t.Helper()
	list := make([]int32, shards)
	for i := range list {
		list[i] = int32(i)
	}
	for _, f := range files {
		if _, err := s.Register(t.Context(), []tracking.Registration{{Filename: f, Shards: list}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.FinishIngest(t.Context(), f, tracking.Command{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWay(t *testing.T) {
	s := newStore(t, tracking.Config{})
	fill(t, s, 2, "a")
	for _, stage := range shard.Queues {
		taken, err := s.Take(t.Context(), stage, "w", 10, time.Minute)
		if err != nil || len(taken) != 2 {
			t.Fatalf("%s: took %v, %v", stage, taken, err)
		}
		var commands []tracking.Command
		for _, r := range taken {
			commands = append(commands, tracking.Command{ID: r.ID, Generation: r.Generation})
		}
		done, err := s.Apply(t.Context(), stage, shard.Complete, commands)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range done {
			if r.Outcome != shard.Changed || r.Status != shard.Done {
				t.Errorf("%s: %+v", stage, r)
			}
		}
	}
	entries, err := s.Outbox(t.Context(), 100)
	if err != nil || len(entries) != 6 {
		t.Fatalf("outbox %v, %v", entries, err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}
