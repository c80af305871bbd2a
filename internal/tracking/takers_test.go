package tracking_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// TestTakers lets many takers, who now and then lose their lease or give back,
// work through everything: nothing is had by two at a time, nothing is done
// twice, and nothing is stuck (promises 1, 2, 6).
func TestTakers(t *testing.T) {
	const files, shards, takers = 30, 4, 12
	s := newQueues(t)
	var names []string
	for i := range files {
		names = append(names, fmt.Sprintf("f%02d", i))
	}
	fill(t, s, shards, names...)
	follow := newFollowing(t, s)
	ctx, stop := context.WithCancel(t.Context())
	var sweeper, work sync.WaitGroup
	sweeper.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.Pool().Exec(ctx, "UPDATE millrace.claim SET lease_until = now() WHERE item_id % 7 = $1",
				rand.IntN(7)); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			follow.step(t)
		}
	})
	held := &holders{has: map[string]string{}, done: map[string]int{}}
	for i := range takers {
		work.Go(func() { held.work(t, s, fmt.Sprintf("w%d", i), files*shards*3) })
	}
	work.Wait()
	stop()
	sweeper.Wait()
	for item, n := range held.done {
		if n != 1 {
			t.Errorf("%s was done %d times", item, n)
		}
	}
	if len(held.done) != files*shards*3 {
		t.Errorf("%d were done, want %d", len(held.done), files*shards*3)
	}
	checkPlaces(t, s.Pool())
	sum, err := s.Summary(t.Context())
	if err != nil || sum.ByStage[shard.Sender][item.Done] != files*shards {
		t.Errorf("summary %+v, %v", sum, err)
	}
	follow.finish(t)
}

// holders know who has what, by the answers alone. Takings are told apart by
// their generation, which the fence compares.
type holders struct {
	mu   sync.Mutex
	has  map[string]string // item and generation → worker
	done map[string]int
}

func (h *holders) work(t *testing.T, s *store, worker string, all int) {
	for {
		h.mu.Lock()
		finished := len(h.done) >= all
		h.mu.Unlock()
		if finished || t.Failed() || t.Context().Err() != nil {
			return
		}
		stage := shard.Queues[rand.IntN(3)]
		taken, err := s.take(t.Context(), stage, worker, 1+rand.IntN(10), time.Minute)
		if err != nil {
			t.Error(err)
			return
		}
		h.taken(t, stage, worker, taken)
		move := item.Complete
		if rand.IntN(8) == 0 {
			move = item.Release
		}
		var commands []queue.Command
		for _, r := range taken {
			commands = append(commands, queue.Command{ID: r.ID, Generation: r.Generation, Worker: worker})
		}
		results, err := s.Apply(t.Context(), stage, move, commands)
		if err != nil {
			t.Error(err)
			return
		}
		h.report(t, stage, move, results)
	}
}

func (h *holders) taken(t *testing.T, stage shard.Stage, worker string, taken []queue.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range taken {
		key := fmt.Sprint(r.ID, stage, r.Generation)
		if other := h.has[key]; other != "" {
			t.Errorf("%s is had by %s and by %s", key, other, worker)
		}
		h.has[key] = worker
	}
}

func (h *holders) report(t *testing.T, stage shard.Stage, move item.Move, results []queue.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range results {
		switch {
		case r.Outcome == item.Changed && move == item.Complete:
			h.done[fmt.Sprint(r.ID, stage)]++
		case r.Outcome == item.Repeated && move == item.Release: // its lease had ended already
		case r.Outcome != item.Changed && r.Outcome != item.Fenced:
			t.Errorf("%s: %+v", move, r)
		}
	}
}

// following reads the history as it grows, and holds that it misses nothing.
type following struct {
	store *store
	at    queue.Place
	seen  []queue.Place
}

func newFollowing(t *testing.T, s *store) *following { return &following{store: s} }

func (f *following) step(t *testing.T) int {
	all, err := f.store.Follow(t.Context(), f.at, 100)
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, v := range all {
		f.at = v.Place
		f.seen = append(f.seen, v.Place)
	}
	return len(all)
}

func (f *following) finish(t *testing.T) {
	for f.step(t) > 0 {
	}
	var rows int
	if err := f.store.Pool().QueryRow(t.Context(), "SELECT count(*) FROM millrace.history").Scan(&rows); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(f.seen, func(a, b queue.Place) int { return int(a.ID - b.ID) })
	distinct := len(slices.Compact(f.seen))
	if distinct != rows || len(f.seen) != rows {
		t.Errorf("followed %d transitions, %d different, of %d", len(f.seen), distinct, rows)
	}
}

// TestConcurrency holds the limit of a stage over takers that race.
func TestConcurrency(t *testing.T) {
	s := newQueues(t)
	fill(t, s, 50, "a")
	limit := 7
	if _, err := s.Queues().Set(t.Context(), queue.ID(shard.Splitter), queue.Set{Concurrency: &limit}); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var had []queue.Result
	var work sync.WaitGroup
	s.InStep()
	for range 8 {
		work.Go(func() {
			taken, err := s.take(t.Context(), shard.Splitter, "w", 3, time.Minute)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			had = append(had, taken...)
		})
	}
	work.Wait()
	if len(had) != limit {
		t.Fatalf("%d are started, want %d", len(had), limit)
	}
	if r := apply(t, s, shard.Splitter, item.Start,
		queue.Command{Name: "a", Part: 49}); r.Outcome != item.Full {
		t.Errorf("one more: %+v", r)
	}
	apply(t, s, shard.Splitter, item.Complete, queue.Command{ID: had[0].ID})
	if taken := s.takeSome(t, 1); len(taken) != 1 {
		t.Errorf("after one is done, took %v", taken)
	}
}

func apply(t testing.TB, s *store, stage shard.Stage, move item.Move, c queue.Command) queue.Result {
	t.Helper()
	results, err := s.Apply(t.Context(), stage, move, []queue.Command{c})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

func TestPause(t *testing.T) {
	s := newQueues(t)
	fill(t, s, 3, "a")
	started := apply(t, s, shard.Splitter, item.Start, queue.Command{Name: "a"})
	on, off := true, false
	if _, err := s.Queues().Set(t.Context(), queue.ID(shard.Splitter), queue.Set{Paused: &on}); err != nil {
		t.Fatal(err)
	}
	if taken, err := s.Take(t.Context(), shard.Splitter, "w", 3, time.Minute); err != nil || len(taken) != 0 {
		t.Errorf("took %v from a paused stage, %v", taken, err)
	}
	if r := apply(t, s, shard.Splitter, item.Start,
		queue.Command{Name: "a", Part: 1}); r.Outcome != item.Paused {
		t.Errorf("started %+v at a paused stage", r)
	}
	if r := apply(t, s, shard.Splitter, item.Complete, queue.Command{ID: started.ID}); r.Outcome != item.Changed {
		t.Errorf("what was started cannot be done: %+v", r)
	}
	set, err := s.Queues().Set(t.Context(), queue.ID(shard.Splitter), queue.Set{Paused: &off})
	if err != nil || set.Paused || set.MaxAttempts != 20 {
		t.Errorf("%+v, %v", set, err)
	}
	if taken := s.takeSome(t, 2); len(taken) != 2 {
		t.Errorf("took %v", taken)
	}
}

// takeSome takes up to three items at a time until it has so many. The queue on
// NATS learns a moment later that it may hand out again, and what was handed out
// in vain comes again after a while.
func (s *store) takeSome(t *testing.T, n int) (taken []queue.Result) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(taken) < n && time.Now().Before(end); {
		some, err := s.Take(t.Context(), shard.Splitter, "w", 3, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, some...)
	}
	return taken
}

// TestHasAlready: what a worker has already it starts at a stage that is paused
// or full, and it counts there.
func TestHasAlready(t *testing.T) {
	s := newStore(t)
	fill(t, s, 4, "a")
	limit, on, off := 1, true, false
	for i, set := range []queue.Set{{Paused: &on}, {Paused: &off, Concurrency: &limit}} {
		if _, err := s.Queues().Set(t.Context(), queue.ID(shard.Splitter), set); err != nil {
			t.Fatal(err)
		}
		if r := apply(t, s, shard.Splitter, item.Start,
			queue.Command{Name: "a", Part: int32(i), Has: true}); r.Outcome != item.Changed {
			t.Errorf("with %+v: %+v", set, r)
		}
	}
	apply(t, s, shard.Splitter, item.Complete, queue.Command{Name: "a", Part: 0})
	if r := apply(t, s, shard.Splitter, item.Start,
		queue.Command{Name: "a", Part: 2}); r.Outcome != item.Full {
		t.Errorf("beside the other one: %+v", r)
	}
	checkPlaces(t, s.Pool())
}

// TestPriority holds the order of takes, in the queue's pages too.
func TestPriority(t *testing.T) {
	s := newQueues(t)
	fill(t, s, 2, "a", "b", "c")
	s.InStep()
	if err := s.SetPriority(t.Context(), "c", 5); err != nil {
		t.Fatal(err)
	}
	if err := s.SetPriority(t.Context(), "x", 5); !errors.Is(err, tracking.ErrNoFile) {
		t.Error(err)
	}
	if refs, err := s.Announced(t.Context(), shard.Splitter, "c"); err != nil || len(refs) != 2 {
		t.Fatal(refs, err)
	} else if err := s.Hands.Reorder(t.Context(), shard.Splitter.String(), refs); err != nil {
		t.Fatal(err)
	}
	want := []string{"c/0", "c/1", "a/0", "a/1", "b/0", "b/1"}
	var pages, taken []string
	page := tracking.QueuePage{Stage: shard.Splitter, Limit: 2}
	for {
		items, err := s.Queue(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			pages = append(pages, fmt.Sprintf("%s/%d", it.Filename, it.Shard))
		}
		page.After = &items[len(items)-1].QueuePlace
	}
	if offset, err := s.Queue(t.Context(), tracking.QueuePage{
		Stage: shard.Splitter, Limit: 2, Offset: 3,
		UpdatedSince: time.Unix(0, 0),
	}); err != nil || len(offset) != 2 || offset[0].Shard != 1 ||
		offset[1].Filename != "b" {
		t.Errorf("with an offset: %v, %v", offset, err)
	}
	if none, err := s.Queue(t.Context(), tracking.QueuePage{
		Stage: shard.Splitter, Limit: 2,
		UpdatedSince: time.Now().Add(time.Hour),
	}); err != nil || len(none) != 0 {
		t.Errorf("changed in the future: %v, %v", none, err)
	}
	for range 6 {
		r, err := s.Take(t.Context(), shard.Splitter, "w", 1, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, fmt.Sprintf("%s/%d", r[0].Name, r[0].Part))
	}
	if !slices.Equal(pages, want) || !slices.Equal(taken, want) {
		t.Errorf("pages %v, taken %v, want %v", pages, taken, want)
	}
}

// TestExtend holds who may keep an item, and that the sweeper heeds it.
func TestExtend(t *testing.T) {
	s := newQueues(t)
	fill(t, s, 3, "a")
	taken, err := s.Take(t.Context(), shard.Splitter, "w", 3, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pool().Exec(t.Context(),
		"UPDATE millrace.claim SET lease_until = now() - interval '1 second'"); err != nil {
		t.Fatal(err)
	}
	kept, err := s.Queues().Extend(t.Context(), queue.ID(shard.Splitter), []queue.Command{
		{ID: taken[0].ID, Generation: taken[0].Generation, Lease: time.Hour},
		{ID: taken[1].ID, Generation: taken[1].Generation - 1, Lease: time.Hour},
		{Name: "a", Part: 2, Worker: "other", Lease: time.Hour},
		{Name: "a", Part: 9, Lease: time.Hour},
		{ID: taken[0].ID, Generation: taken[0].Generation, Lease: time.Hour}, // asked for again before the answer
		{ID: taken[0].ID, Generation: taken[0].Generation - 1, Lease: time.Hour},
		{Name: "a", Worker: "w", Lease: time.Hour},
	})
	if err != nil || !slices.Equal(kept, []bool{true, false, false, false, true, false, true}) {
		t.Fatal(kept, err)
	}
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	items, err := s.File(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []item.Status{item.Started, item.New, item.New} {
		st := items[i].Stages[shard.Splitter]
		if st.Status != want || st.Attempts != 1 {
			t.Errorf("shard %d: %+v, want %s after one attempt", i, st, want)
		}
		if want == item.New && st.Error != "the lease has expired" {
			t.Errorf("shard %d: error %q", i, st.Error)
		}
	}
}

// TestClockSetBack holds that leases and delays that a clock gave which was ahead
// last as long as they were asked for, once it is set back (invariant 6).
func TestClockSetBack(t *testing.T) {
	s := newQueues(t)
	fill(t, s, 3, "a")
	taken, err := s.Take(t.Context(), shard.Splitter, "w", 3, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, shard.Splitter, item.Release, queue.Command{ID: taken[1].ID, Worker: "w", Delay: time.Hour})
	exec := func(statement string) {
		t.Helper()
		if _, err := s.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	// The clock was two days ahead; it was right when the last item was taken.
	exec(fmt.Sprintf("UPDATE millrace.claim SET lease_until = lease_until + interval '2 days', given_at = given_at "+
		"+ interval '2 days' WHERE item_id != %d", taken[2].ID))
	exec("UPDATE millrace.delayed SET due_at = due_at + interval '2 days', given_at = given_at + interval '2 days'")
	exec(fmt.Sprintf(
		"UPDATE millrace.claim SET lease_until = lease_until + interval '1 hour' WHERE item_id = %d", taken[2].ID,
	))
	again := trackingtest.On(t, s.Pool()).Store.Queues() // as after a restart
	for range 2 {
		if err := again.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := map[int64]time.Duration{}
		rows, err := s.Pool().Query(t.Context(), "SELECT item_id, lease_until - now() FROM millrace.claim UNION ALL "+
			"SELECT item_id, due_at - now() FROM millrace.delayed")
		if err != nil {
			t.Fatal(err)
		}
		var id int64
		var last time.Duration
		if _, err := pgx.ForEachRow(rows, []any{&id, &last}, func() error {
			left[id] = last.Round(time.Hour)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := map[int64]time.Duration{
			taken[0].ID: time.Hour, taken[1].ID: time.Hour,
			taken[2].ID: 2 * time.Hour,
		}; !maps.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
	}
	checkPlaces(t, s.Pool())
}

// TestSweepers: many who end the same delays at the same time put each item
// into the queue once (promises 3 and 4).
func TestSweepers(t *testing.T) {
	const items, rounds, sweepers = 300, 20, 4
	s := newStore(t)
	fill(t, s, items, "a")
	for range rounds {
		commands := make([]queue.Command, items)
		for i := range commands {
			commands[i] = queue.Command{Name: "a", Part: int32(i), Delay: time.Hour}
		}
		for _, move := range []item.Move{item.Start, item.Release} {
			if _, err := s.Apply(t.Context(), shard.Splitter, move, commands); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Pool().Exec(t.Context(), "UPDATE millrace.delayed SET due_at = now()"); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range sweepers {
			all.Go(func() {
				if err := trackingtest.On(t, s.Pool()).Store.Queues().Sweep(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		var ready int
		if err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM millrace.ready").Scan(&ready); err != nil ||
			ready != items {
			t.Fatalf("%d are ready, not %d: %v", ready, items, err)
		}
	}
	checkPlaces(t, s.Pool())
}

// TestTakeover takes an item from whoever has it, once.
func TestTakeover(t *testing.T) {
	s := newStore(t)
	fill(t, s, 1, "a")
	had := apply(t, s, shard.Splitter, item.Start, queue.Command{Name: "a", Worker: "lost"})
	again := queue.Command{ID: had.ID, Generation: had.Generation, Worker: "w", Takeover: true, Lease: time.Minute}
	if r := apply(t, s, shard.Splitter, item.Start, again); r.Outcome != item.Changed ||
		r.Generation != had.Generation+1 || r.Attempts != 2 || r.Worker != "w" {
		t.Errorf("%+v", r)
	}
	if r := apply(t, s, shard.Splitter, item.Start, again); r.Outcome != item.Fenced {
		t.Errorf("twice: %+v", r)
	}
	if r := apply(t, s, shard.Splitter, item.Complete,
		queue.Command{ID: had.ID, Generation: had.Generation}); r.Outcome != item.Fenced {
		t.Errorf("the lost one is done: %+v", r)
	}
	checkPlaces(t, s.Pool())
}

// TestPurge drops what is finished and nothing else, and the counters follow.
func TestPurge(t *testing.T) {
	s := newStore(t)
	fill(t, s, 2, "done", "new", "cancelled", "half")
	for _, stage := range shard.Queues {
		for _, c := range []queue.Command{{Name: "done"}, {Name: "done", Part: 1}, {Name: "half"}} {
			apply(t, s, stage, item.Start, c)
			apply(t, s, stage, item.Complete, c)
		}
	}
	if n, err := s.Cancel(t.Context(), "cancelled", ""); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	if n, err := s.Cancel(t.Context(), "cancelled", ""); err != nil || n != 0 {
		t.Error("cancelled again:", n, err)
	}
	if _, err := s.Register(t.Context(),
		[]tracking.Registration{{Filename: "cancelled", Shards: []int32{7}}}); !errors.Is(err, tracking.ErrCancelled) {
		t.Error("a shard of a cancelled file:", err)
	}
	if n, err := s.Purge(t.Context(), time.Now().Add(-time.Hour), 10); err != nil || n != 0 {
		t.Error("purged what is young:", n, err)
	}
	if n, err := s.Purge(t.Context(), time.Now().Add(time.Hour), 10); err != nil || n != 2 {
		t.Error("purged", n, err)
	}
	files, err := s.Files(t.Context(), tracking.FilesPage{Limit: 10})
	if err != nil || len(files) != 2 || files[0].Filename != "half" || files[0].Done != 1 ||
		files[1].Filename != "new" {
		t.Errorf("left: %+v, %v", files, err)
	}
	sum, err := s.Summary(t.Context())
	if err != nil || sum.Total != 4 || sum.ByStage[shard.Sender] != (queue.Counts{3, 0, 1, 0}) ||
		!slices.Equal(sum.ByShard, []tracking.ShardCounts{{Shard: 0, Total: 2, Done: 1}, {Shard: 1, Total: 2}}) ||
		sum.Queues[0].Dead != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	var left int
	if err := s.Pool().QueryRow(
		t.Context(),
		"SELECT count(*) FROM millrace.history WHERE item_id NOT IN (SELECT id FROM millrace.pipeline_tracking)",
	).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d lines of history are left, %v", left, err)
	}
}

// TestPurgeLeavesWhatIsQueued: a file that is done at the last stage, as nobody
// keeps it from being, is not finished while another stage has an item of it in
// a queue or with somebody (promise 3).
func TestPurgeLeavesWhatIsQueued(t *testing.T) {
	s := newStore(t)
	fill(t, s, 1, "ready", "delayed", "started", "ended")
	apply(t, s, shard.Splitter, item.Start, queue.Command{Name: "delayed"})
	apply(t, s, shard.Splitter, item.Release, queue.Command{Name: "delayed", Delay: time.Hour})
	apply(t, s, shard.Splitter, item.Start, queue.Command{Name: "started"})
	apply(t, s, shard.Splitter, item.Fail, queue.Command{Name: "ended"})
	for _, file := range []string{"ready", "delayed", "started", "ended"} {
		apply(t, s, shard.Sender, item.Start, queue.Command{Name: file})
		if r := apply(t, s, shard.Sender, item.Complete,
			queue.Command{Name: file}); r.Outcome != item.Changed {
			t.Fatalf("%+v", r)
		}
	}
	if n, err := s.Purge(t.Context(), time.Now().Add(time.Hour), 10); err != nil || n != 1 {
		t.Error("purged", n, err)
	}
	var orphans int
	if err := s.Pool().QueryRow(t.Context(), `SELECT count(*)
		FROM (SELECT item_id FROM millrace.ready UNION ALL SELECT item_id FROM millrace.delayed
		UNION ALL SELECT item_id FROM millrace.claim) AS p
		WHERE item_id NOT IN (SELECT id FROM millrace.pipeline_tracking)`).Scan(&orphans); err != nil || orphans != 0 {
		t.Errorf("%d items are left that no file has, %v", orphans, err)
	}
}

// TestFiles holds the filters and pages of the list.
func TestFiles(t *testing.T) {
	s := newStore(t)
	fill(t, s, 2, "a_1", "a%2", "b", "c")
	apply(t, s, shard.Splitter, item.Start, queue.Command{Name: "b"})
	apply(t, s, shard.Splitter, item.Fail, queue.Command{Name: "c", Error: "boom"})
	list := func(p tracking.FilesPage) (names []string) {
		t.Helper()
		p.Limit = 1
		for {
			files, err := s.Files(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) == 0 {
				return names
			}
			names = append(names, files[0].Filename)
			p.After = &files[0].FilePlace
		}
	}
	newest := func(status item.Status) *item.Status { return &status }
	at := func(stage shard.Stage) *shard.Stage { return &stage }
	for name, c := range map[string]struct {
		page tracking.FilesPage
		want []string
	}{
		"all":             {tracking.FilesPage{}, []string{"c", "b", "a%2", "a_1"}},
		"named":           {tracking.FilesPage{Search: "a"}, []string{"a%2", "a_1"}},
		"named literally": {tracking.FilesPage{Search: "a_"}, []string{"a_1"}},
		"failed":          {tracking.FilesPage{Status: newest(item.Failed)}, []string{"c"}},
		"started":         {tracking.FilesPage{Status: newest(item.Started)}, []string{"b"}},
		"started later":   {tracking.FilesPage{Status: newest(item.Started), Stage: at(shard.Worker)}, nil},
		"done":            {tracking.FilesPage{Status: newest(item.Done)}, nil},
		"done at first": {
			tracking.FilesPage{Status: newest(item.Done), Stage: at(shard.EventIngest)},
			[]string{"c", "b", "a%2", "a_1"},
		},
	} {
		if got := list(c.page); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestRetryFailed holds the filters.
func TestRetryFailed(t *testing.T) {
	s := newStore(t)
	fill(t, s, 2, "a1", "a2", "b")
	for _, c := range []queue.Command{
		{Name: "a1", Error: "disk full"},
		{Name: "a2", Error: "bad line"},
		{Name: "b", Error: "disk full"},
	} {
		apply(t, s, shard.Splitter, item.Fail, c)
	}
	if _, err := s.Cancel(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	stage := shard.Splitter
	for _, c := range []struct {
		filter tracking.FailedFilter
		want   int
	}{
		{tracking.FailedFilter{Stage: shard.Worker, Limit: 9}, 0},
		{tracking.FailedFilter{Stage: stage, Limit: 9, Error: "disk", Prefix: "a2"}, 0},
		{tracking.FailedFilter{Stage: stage, Limit: 9, Before: time.Now().Add(-time.Hour)}, 0},
		{tracking.FailedFilter{Stage: stage, Limit: 9, Error: "disk", Prefix: "a"}, 1},
		{tracking.FailedFilter{Stage: stage, Limit: 1}, 1},
		{tracking.FailedFilter{Stage: stage, Limit: 9, Filename: "b"}, 1}, // its first failed before the cancellation
		{tracking.FailedFilter{Stage: stage, Limit: 9}, 0},
		{tracking.FailedFilter{Stage: stage, Limit: 9, Dead: true}, 1},
	} {
		if n, err := s.RetryFailed(t.Context(), c.filter, 0); err != nil || n != c.want {
			t.Errorf("%+v: retried %d, want %d: %v", c.filter, n, c.want, err)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	f.Add("12-34")
	f.Add("-")
	f.Add("18446744073709551616-0")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := queue.ParsePlace(text)
		if err != nil {
			return
		}
		if again, err := queue.ParsePlace(p.String()); err != nil || again != p {
			t.Errorf("%q → %v → %v, %v", text, p, again, err)
		}
	})
}
