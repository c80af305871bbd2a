package userqueue_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// open makes the queue mail on a database of its own. Nothing runs.
func open(t *testing.T, change func(*queue.Settings)) (*userqueue.Store, queue.ID) {
	t.Helper()
	s, err := userqueue.New(trackingtest.NewStore(t, &engine).Queues())
	if err != nil {
		t.Fatal(err)
	}
	v := queue.Settings{Name: "mail", LeaseS: 30, RetentionS: 3600, MaxItems: 10}
	change(&v)
	if made, err := s.Create(t.Context(), v); err != nil || !made {
		t.Fatal(made, err)
	}
	got, err := s.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	return s, got.ID
}

// end moves items to an end, and has it lie some time back.
func end(t *testing.T, s *userqueue.Store, q queue.ID, move item.Move, ago time.Duration, ids ...int64) {
	t.Helper()
	commands := make([]queue.Command, len(ids))
	for i, id := range ids {
		commands[i] = queue.Command{ID: id, Worker: "w"}
	}
	for _, m := range []item.Move{item.Start, move} {
		results, err := s.Queues().Apply(t.Context(), q, m, commands)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Outcome != item.Changed {
				t.Fatalf("%s: %+v", m, r)
			}
		}
	}
	for _, sql := range []string{
		"UPDATE millrace.finished SET at = at - $2 * interval '1 second' WHERE item_id = ANY ($1::bigint[])",
		"UPDATE millrace.item SET updated_at = updated_at - $2 * interval '1 second' WHERE id = ANY ($1::bigint[])",
	} {
		if _, err := s.Queues().Pool().Exec(t.Context(), sql, ids, ago.Seconds()); err != nil {
			t.Fatal(err)
		}
	}
}

func add(t *testing.T, s *userqueue.Store, n int) []int64 {
	t.Helper()
	added, err := s.Enqueue(t.Context(), "mail", make([]userqueue.EnqueueItem, n))
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]int64, n)
	for i, a := range added {
		ids[i] = a.ID
	}
	return ids
}

// TestPurge: finished items go when their time is over, or when more are kept
// than may be, the oldest first, with their history; those that were brought back
// stay, and the counters say what is there.
func TestPurge(t *testing.T) {
	s, q := open(t, func(v *queue.Settings) { v.MaxItems = 4 })
	purge := func(want int) {
		t.Helper()
		if n, err := s.Purge(t.Context()); n != want || err != nil {
			t.Errorf("purged %d items, not %d: %v", n, want, err)
		}
	}
	a := add(t, s, 4)
	end(t, s, q, item.Complete, 2*time.Hour, a[0])
	end(t, s, q, item.Fail, 2*time.Hour, a[1], a[2])
	end(t, s, q, item.Complete, time.Minute, a[3])
	if results, err := s.Retry(t.Context(), q, a[2:3]); err != nil || results[0].Outcome != item.Changed {
		t.Fatal(results, err)
	}
	purge(2)
	purge(0)
	b := add(t, s, 3) // with the one that was brought back, as many as may be
	end(t, s, q, item.Cancel, time.Second, b...)
	end(t, s, q, item.Complete, 0, a[2])
	purge(1) // a[3] is the oldest of five
	items, err := s.Items(t.Context(), userqueue.Page{Queue: q, Limit: 100})
	if err != nil || len(items) != 4 || items[0].ID != a[2] {
		t.Errorf("left are %+v, %v", items, err)
	}
	states, err := s.States(t.Context())
	if err != nil || states[0].Counts[item.Done] != 1 || states[0].Counts[item.Failed] != 3 ||
		states[0].Cancelled != 3 || states[0].Dead != 3 {
		t.Errorf("counted are %+v, %v", states, err)
	}
	var rows int
	err = s.Queues().Pool().QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM millrace.history WHERE item_id NOT IN (SELECT id FROM millrace.item))
		+ (SELECT count(*) FROM millrace.failed WHERE item_id NOT IN (SELECT id FROM millrace.item))
		+ (SELECT count(*) FROM millrace.finished WHERE item_id NOT IN (SELECT id FROM millrace.item))`).Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("%d rows of dropped items are left, %v", rows, err)
	}
}

// TestBounds: a queue takes no more live items than it may have, all or none, and
// there are no more queues than may be.
func TestBounds(t *testing.T) {
	s, q := open(t, func(*queue.Settings) {})
	ids := add(t, s, 8)
	if _, err := s.Enqueue(t.Context(), "mail", make([]userqueue.EnqueueItem, 3)); !errors.Is(err, userqueue.ErrFull) {
		t.Error(err)
	}
	end(t, s, q, item.Complete, 0, ids[0])
	if n := len(add(t, s, 3)); n != 3 {
		t.Error(n)
	}
	if _, err := s.Enqueue(t.Context(), "mail", make([]userqueue.EnqueueItem, 1)); !errors.Is(err, userqueue.ErrFull) {
		t.Error(err)
	}
	_, err := s.Queues().Pool().Exec(t.Context(),
		"INSERT INTO millrace.stage (stage, name) SELECT 1000 + n, 'q' || n FROM generate_series(2, $1) AS n",
		userqueue.MaxQueues)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), queue.Settings{Name: "more"}); !errors.Is(err, userqueue.ErrTooMany) {
		t.Error(err)
	}
}

// TestShares: one maker has no more queues than his share, and another one has his.
func TestShares(t *testing.T) {
	s, _ := open(t, func(*queue.Settings) {})
	make1 := func(name, by string) (bool, error) {
		t.Helper()
		return s.CreateBy(t.Context(), userqueue.Maker{Name: by, Most: 3},
			queue.Settings{Name: name, LeaseS: 30, RetentionS: 3600, MaxItems: 10})
	}
	for i := range 5 {
		made, err := make1(fmt.Sprint("a", i), "a")
		if wants := i < 3; made != wants || errors.Is(err, userqueue.ErrShare) == wants {
			t.Errorf("queue %d: %v, %v", i, made, err)
		}
	}
	if made, err := make1("a1", "a"); made || err != nil {
		t.Errorf("one that is there: %v, %v", made, err)
	}
	if made, err := make1("b", "b"); !made || err != nil {
		t.Errorf("of another maker: %v, %v", made, err)
	}
	if _, err := s.Delete(t.Context(), "a0", true); err != nil {
		t.Fatal(err)
	}
	if made, err := make1("a4", "a"); !made || err != nil {
		t.Errorf("after one was deleted: %v, %v", made, err)
	}
}

// TestRateOfAdded: an item that is added before its key may be started again waits
// for that, and so does one that comes again.
func TestRateOfAdded(t *testing.T) {
	s, q := open(t, func(v *queue.Settings) { v.RatePerKey = queue.Rate{Count: 2, PerS: 3600} })
	item1 := func() userqueue.Stored {
		t.Helper()
		added, err := s.Enqueue(t.Context(), "mail", []userqueue.EnqueueItem{{Key: "a"}, {Key: "b"}})
		if err != nil {
			t.Fatal(err)
		}
		items, err := s.Items(t.Context(), userqueue.Page{Queue: q, IDs: []int64{added[0].ID}, Limit: 1})
		if err != nil || len(items) != 1 {
			t.Fatal(items, err)
		}
		return items[0]
	}
	first := item1()
	end(t, s, q, item.Again, 0, first.ID) // one start
	if now := item1(); now.ID != first.ID || now.State != "new" {
		t.Errorf("after one start: %+v", now)
	}
	end(t, s, q, item.Complete, 0, first.ID) // two
	second := item1()
	wait := func(v userqueue.Stored) time.Duration {
		if v.State != "scheduled" || v.RunAt == nil {
			t.Fatalf("after two starts: %+v", v)
		}
		return time.Until(*v.RunAt)
	}
	if d := wait(second); second.ID == first.ID || d < 59*time.Minute || d > time.Hour {
		t.Errorf("it waits for %s", d)
	}
	states, err := s.States(t.Context())
	if err != nil || states[0].Delayed != 1 || states[0].Depth != 1 {
		t.Errorf("counted are %+v, %v", states, err)
	}
	// By force, and given back: it waits for the second start before.
	end(t, s, q, item.Release, 0, second.ID)
	if d := wait(item1()); d < 59*time.Minute || d > time.Hour {
		t.Errorf("it waits for %s", d)
	}
}

// TestCheckLimits names every rule that limits break.
func TestCheckLimits(t *testing.T) {
	v := queue.Settings{Name: "mail", MaxItems: 1}
	if broken := userqueue.CheckSettings(v); len(broken) > 0 {
		t.Error(broken)
	}
	v.Concurrency, v.PerGroup, v.RatePerKey, v.RetentionS, v.MaxItems = -1, 10_001, queue.Rate{Count: -1, PerS: 0.5},
		-1, 0
	var fields string
	for _, b := range userqueue.CheckSettings(v) {
		fields += b.Field + " " + b.Code + ","
	}
	const want = "concurrency range,concurrency_per_group range,rate_per_key.count range,rate_per_key.per_s " +
		"range,retention_s range,max_items range,"
	if fields != want {
		t.Errorf("%q, not %q", fields, want)
	}
}
