package scheduler_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/ingest/scheduler"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// noted is how many changes wait for a scheduler.
func (s *site) noted() (n int) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), "SELECT count(*) FROM millrace.run_change").Scan(&n); err != nil {
		s.Fatal(err)
	}
	return n
}

// TestOthers: items that the scheduler has not made are no runs, whatever their key and
// queue, and nothing of them waits for a scheduler.
func TestOthers(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	mail := queue.Settings{Name: "mail", LeaseS: 30, RetentionS: 3600, MaxItems: 100, MaxAttempts: 3}
	if _, err := s.q.Create(t.Context(), mail); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mail", scheduler.Queue} {
		v, err := s.q.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		items := []userqueue.EnqueueItem{{Key: scheduler.KeyPrefix + "x"}, {Key: "run:y"}}
		added, err := s.q.Enqueue(t.Context(), name, items)
		if err != nil {
			t.Fatal(err)
		}
		one := []queue.Command{{ID: added[0].ID, Worker: "w"}}
		for i, move := range []item.Move{item.Start, item.Fail, item.Retry, item.Start, item.Complete} {
			s.clock(time.Duration(i) * time.Minute)
			r, err := s.q.Queues().Apply(t.Context(), v.ID, move, one)
			if err != nil || r[0].Outcome != item.Changed {
				t.Fatalf("%s: %+v, %v", move, r, err)
			}
		}
		if _, err := s.q.Delete(t.Context(), name, true); err != nil {
			t.Fatal(err)
		}
		if n := s.noted(); n != 0 {
			t.Errorf("%d changes of items of %s are noted", n, name)
		}
	}
}

// TestDeletedRuns (3): the deletion of the queue ends the runs whose items have not ended.
func TestDeletedRuns(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	done, queued := s.job(0, 60), s.job(time.Minute, 60)
	s.settle()
	s.work(item.Start, "")
	s.work(item.Complete, "{}")
	s.clock(time.Minute)
	s.settle()
	if _, err := s.q.Delete(t.Context(), scheduler.Queue, true); err != nil {
		t.Fatal(err)
	}
	if n := s.noted(); n != 1 {
		t.Errorf("%d changes are noted", n)
	}
	s.settle()
	s.equal("done", s.state(done), "pending, 0 under way, 0 failures, runs: success")
	s.equal("queued", s.state(queued), "pending, 0 under way, 0 failures, runs: cancelled")
}

// TestMend: what a process of an older release does, which notes nothing, is found.
func TestMend(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 60)
	s.settle()
	hooked := s.q
	older, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, s.pool, embeddedtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.q, err = userqueue.New(older); err != nil {
		t.Fatal(err)
	}
	s.work(item.Start, "")
	s.work(item.Complete, `{"articles_count": 7}`)
	s.q = hooked
	mend := func(want int) {
		t.Helper()
		if err := s.one.Mend(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := s.noted(); n != want {
			t.Fatalf("%d changes are noted, want %d", n, want)
		}
	}
	mend(0) // it may be noted by now
	s.clock(2 * time.Minute)
	mend(1)
	s.settle()
	s.equal("mended", s.state(j), "pending, 0 under way, 0 failures, runs: success")
	mend(0)
}
