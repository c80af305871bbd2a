package scheduler_test

import (
	"testing"
	"time"

	"github.com/millrace-io/millrace/ingest/scheduler"
	"github.com/millrace-io/millrace/schemas/item"
)

// TestFollowLate (3): a scheduler that follows the start of a run, and waits meanwhile for
// another one that follows its end, does not put it back.
func TestFollowLate(t *testing.T) {
	t.Parallel()
	s := start(t, scheduler.Config{})
	j := s.job(0, 10)
	s.settle()
	s.work(item.Start, "")
	other, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := other.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	exec("SELECT FROM millrace.executions FOR UPDATE")
	followed := make(chan error, 1)
	go func() {
		_, err := s.one.Follow(t.Context())
		followed <- err
	}()
	for end, waits := time.Now().Add(time.Minute), 0; waits == 0; time.Sleep(5 * time.Millisecond) {
		if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatal("nobody waits for the run")
		}
	}
	s.clock(time.Minute)
	s.work(item.Complete, `{"articles_count": 7}`)
	exec(`UPDATE millrace.executions AS e SET status = 'success', started_at = i.taken_at, completed_at = i.updated_at,
		articles_count = 7 FROM millrace.item AS i WHERE i.id = e.item_id`)
	exec("UPDATE millrace.job_status SET running = 0, active = 0, status = 'pending'")
	exec("DELETE FROM millrace.run_change WHERE status = 'done'")
	if err := other.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-followed; err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.equal("after its end", s.state(j), "pending, 0 under way, 0 failures, runs: success")
}
