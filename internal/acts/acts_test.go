package acts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// site is the queue mail, on a database of its own. Nothing runs.
type site struct {
	*testing.T
	*acts.Store
	of     *items.Subject
	errs   *recrawl.Store
	own    *userqueue.Store
	shards *tracking.Store
	mail   queue.ID
}

func open(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, shards: trackingtest.NewStore(t, &engine)}
	var err error
	if s.own, err = userqueue.New(s.shards.Queues()); err != nil {
		t.Fatal(err)
	}
	if s.errs, err = recrawl.New(s.own, embeddedtest.Log(t)); err != nil {
		t.Fatal(err)
	}
	if s.Store, err = acts.New(s.own.Queues(), embeddedtest.Log(t)); err != nil {
		t.Fatal(err)
	}
	s.of = items.New(s.own, s.shards)
	s.Add(s.of)
	s.Add(s.errs.Subject())
	settings := queue.Settings{Name: "mail", LeaseS: 30, RetentionS: 3600, MaxItems: 1_000_000, MaxAttempts: 3}
	if _, err := s.own.Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	v, err := s.own.Get(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	s.mail = v.ID
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// add adds items, and returns their ids.
func (s *site) add(all ...userqueue.EnqueueItem) []int64 {
	s.Helper()
	added, err := s.own.Enqueue(s.Context(), "mail", all)
	s.must(err)
	ids := make([]int64, len(added))
	for i, a := range added {
		ids[i] = a.ID
	}
	return ids
}

func (s *site) move(move item.Move, reason func(int) string, ids ...int64) {
	s.Helper()
	commands := make([]queue.Command, len(ids))
	for i, id := range ids {
		commands[i] = queue.Command{ID: id, Worker: "w", Error: reason(i)}
	}
	results, err := s.own.Queues().Apply(s.Context(), s.mail, move, commands)
	s.must(err)
	for _, r := range results {
		if r.Outcome != item.Changed {
			s.Fatalf("%s: %+v", move, r)
		}
	}
}

func none(int) string { return "" }

// fail has items fail, each for its reason.
func (s *site) fail(reason func(int) string, ids ...int64) {
	s.Helper()
	s.move(item.Start, none, ids...)
	s.move(item.Fail, reason, ids...)
}

// begin begins an act of many members.
func (s *site) begin(r acts.Request, members int) acts.Act {
	s.Helper()
	a, made, err := s.Begin(s.Context(), r)
	s.must(err)
	if !made || a.Matched != members || a.Left != members {
		s.Fatalf("%+v, made %v, want %d members", a, made, members)
	}
	return a
}

// finish takes turns until an act has ended, and returns it as it is then.
func (s *site) finish(id int64) (a acts.Act) {
	s.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		worked, err := s.Step(s.Context())
		s.must(err)
		a, err = s.Get(s.Context(), id)
		s.must(err)
		if a.State != acts.Running {
			break
		}
		if !worked { // a transaction that was cut off still has it
			time.Sleep(5 * time.Millisecond)
		}
	}
	if a.State != acts.Finished || a.EndedAt == nil || a.Left != 0 {
		s.Fatalf("not finished: %+v", a)
	}
	return a
}

// number is how many items a query counts.
func (s *site) number(sql string, args ...any) (n int) {
	s.Helper()
	s.must(s.shards.Pool().QueryRow(s.Context(), sql, args...).Scan(&n))
	return n
}

// filterOf is the filter of an act on items.
func filterOf(t *testing.T, a acts.Act) (f items.ItemFilter) {
	t.Helper()
	if err := json.Unmarshal(a.Filter, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (s *site) reasons(id int64) (all []string) {
	s.Helper()
	members, err := s.Members(s.Context(), id)
	s.must(err)
	for _, m := range members {
		all = append(all, fmt.Sprintf("%s %s %s", m.Outcome, m.ID, m.Reason))
	}
	return all
}

var kinds = []string{"550 no such user %d", "dial tcp 10.0.0.%d:25: timeout", "GET https://a.example/%d: 503"}

// TestGroup retries one group of failures of three: its number is named before,
// turns are bounded, and the figures add up after each (1, 5).
func TestGroup(t *testing.T) {
	s := open(t)
	ids := s.add(make([]userqueue.EnqueueItem, 2400)...)
	s.fail(func(i int) string { return fmt.Sprintf(kinds[i%3], i) }, ids...)
	found, err := s.of.Failures(t.Context(), items.ItemFilter{Queue: "mail"}, userqueue.Visible{})
	s.must(err)
	if len(found.Groups) != 3 || found.Items != 2400 || found.More || found.Groups[0].Count != 800 {
		t.Fatalf("%+v", found)
	}
	f := items.ItemFilter{Queue: "mail", State: "failed", Fingerprint: "‹n› no such user ‹n›"}
	if n, err := s.Count(t.Context(), acts.Request{Subject: items.Name, Move: items.Retry, Filter: f}); err != nil || n != (acts.ActCount{Matched: 800}) {
		t.Fatalf("%+v, %v", n, err)
	}
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: f, By: "ann"}, 800)
	late := s.add(userqueue.EnqueueItem{})
	s.fail(func(int) string { return "550 no such user 1" }, late...)
	for before := 0; ; {
		_, err := s.Step(t.Context())
		s.must(err)
		a, err = s.Get(t.Context(), a.ID)
		s.must(err)
		back := s.number("SELECT count(*) FROM millrace.item WHERE status = 'new'")
		if a.Done != back || a.Done-before > acts.Turn || a.Left != 800-back || a.By != "ann" || filterOf(t, a) != f {
			t.Fatalf("%d are new: %+v", back, a)
		}
		if before = back; a.State == acts.Finished {
			break
		}
	}
	if a.Done != 800 || s.number("SELECT count(*) FROM millrace.failed") != 1601 {
		t.Errorf("%+v", a)
	}
	if n := s.number("SELECT count(*) FROM millrace.history WHERE move = 'retry' AND worker = 'ann'"); n != 800 {
		t.Errorf("the history says of %d items who brought them back", n)
	}
	all, err := s.List(t.Context(), 0, 10)
	if s.must(err); len(all) != 1 || all[0].ID != a.ID {
		t.Errorf("%+v", all)
	}
}

// TestMeanwhile: members that have moved between are left alone, and told (3).
func TestMeanwhile(t *testing.T) {
	s := open(t)
	ids := s.add(userqueue.EnqueueItem{}, userqueue.EnqueueItem{}, userqueue.EnqueueItem{}, userqueue.EnqueueItem{Key: "k"}, userqueue.EnqueueItem{},
		userqueue.EnqueueItem{})
	s.fail(none, ids...)
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}}, 6)
	_, err := s.own.Retry(t.Context(), s.mail, ids[:3])
	s.must(err)
	s.fail(none, ids[1])
	s.move(item.Start, none, ids[2])
	s.add(userqueue.EnqueueItem{Key: "k"})
	_, err = s.shards.Pool().Exec(t.Context(), "DELETE FROM millrace.item WHERE id = $1", ids[4])
	s.must(err)
	a = s.finish(a.ID)
	if a.Done != 1 || a.Skipped != 4 || a.Failed != 1 {
		t.Errorf("%+v", a)
	}
	want := []string{
		fmt.Sprintf("failed %d another live item has its key", ids[3]),
		fmt.Sprintf("skipped %d is new", ids[0]),
		fmt.Sprintf("skipped %d was brought back meanwhile, and has failed again", ids[1]),
		fmt.Sprintf("skipped %d is started", ids[2]),
		fmt.Sprintf("skipped %d is gone", ids[4]),
	}
	if got := s.reasons(a.ID); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// The key of an item that was not brought back is not held for it.
	if n := s.number("SELECT count(*) FROM millrace.item_key"); n != 1 {
		t.Errorf("%d keys are held", n)
	}
}

// TestNamed: of more members that were skipped than are named, the first are (5).
func TestNamed(t *testing.T) {
	s := open(t)
	ids := s.add(make([]userqueue.EnqueueItem, 1300)...)
	s.fail(none, ids...)
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}}, 1300)
	_, err := s.own.Retry(t.Context(), s.mail, ids)
	s.must(err)
	if a = s.finish(a.ID); a.Skipped != 1300 {
		t.Errorf("%+v", a)
	}
	if got := s.reasons(a.ID); len(got) != acts.Named ||
		!strings.HasPrefix(got[0], fmt.Sprintf("skipped %d ", ids[0])) {
		t.Errorf("%d are named", len(got))
	}
}

// TestAgain: the same request with the same key is one act, also when several send
// it at once; with another filter it is refused (4).
func TestAgain(t *testing.T) {
	s := open(t)
	s.fail(none, s.add(make([]userqueue.EnqueueItem, 10)...)...)
	r := acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}, By: "ann", Key: "k"}
	var wait sync.WaitGroup
	found := make([]acts.Act, 8)
	made := make([]bool, len(found))
	for i := range found {
		wait.Go(func() {
			var err error
			if found[i], made[i], err = s.Begin(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	n := 0
	for i, a := range found {
		if a.ID != found[0].ID || a.ID == 0 {
			t.Errorf("%+v", a)
		}
		if made[i] {
			n++
		}
	}
	if n != 1 {
		t.Errorf("made %d times", n)
	}
	s.finish(found[0].ID)
	if a, made, err := s.Begin(t.Context(), r); err != nil || made || a.Done != 10 {
		t.Errorf("%+v, %v, %v", a, made, err)
	}
	r.Filter = items.ItemFilter{Queue: "mail", State: "dead"}
	if _, _, err := s.Begin(t.Context(), r); !errors.Is(err, acts.ErrKeyTaken) {
		t.Error(err)
	}
	r.By = "bob"
	if a, made, err := s.Begin(t.Context(), r); err != nil || !made || a.State != acts.Finished || a.Matched != 0 {
		t.Errorf("nothing matched: %+v, %v, %v", a, made, err)
	}
}

// TestTogether: two acts over the same items, worked on by several processes, bring
// each item back once (2, 3).
func TestTogether(t *testing.T) {
	s := open(t)
	s.fail(none, s.add(make([]userqueue.EnqueueItem, 3000)...)...)
	r := acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}}
	first, second := s.begin(r, 3000), s.begin(r, 3000)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			if err := s.Store.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if s.number("SELECT count(*) FROM millrace.act WHERE state = 'running'") == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the acts do not end")
		}
	}
	stop()
	wait.Wait()
	a, b := s.finish(first.ID), s.finish(second.ID)
	if a.Done+b.Done != 3000 || a.Skipped+b.Skipped != 3000 || a.Failed+b.Failed != 0 {
		t.Errorf("%+v, %+v", a, b)
	}
	if n := s.number("SELECT count(*) FROM millrace.history WHERE move = 'retry'"); n != 3000 {
		t.Errorf("brought back %d times", n)
	}
}

// TestCutOff: a turn that is cut off anywhere was taken whole or not at all, and
// the act goes on (2).
func TestCutOff(t *testing.T) {
	s := open(t)
	s.fail(none, s.add(make([]userqueue.EnqueueItem, 4000)...)...)
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}}, 4000)
	for i := range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*500*time.Microsecond)
		_, _ = s.Step(ctx)
		cancel()
		// One statement: what was sent may still be committed.
		if n := s.number(`SELECT count(*) FROM millrace.act AS a,
			LATERAL (SELECT count(*) AS n FROM millrace.item WHERE status = 'new') AS back,
			LATERAL (SELECT coalesce(sum(cardinality(members)), 0) AS n FROM millrace.act_batch) AS waiting
			WHERE a.done = back.n AND a.matched - a.done = waiting.n`); n != 1 {
			t.Fatal("the record does not say what was done")
		}
	}
	if a = s.finish(a.ID); a.Done != 4000 {
		t.Errorf("%+v", a)
	}
}

// TestStop: what was done stays done, and no more is.
func TestStop(t *testing.T) {
	s := open(t)
	s.fail(none, s.add(make([]userqueue.EnqueueItem, 1200)...)...)
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail"}}, 1200)
	_, err := s.Step(t.Context())
	s.must(err)
	for range 2 {
		a, err = s.Stop(t.Context(), a.ID)
		s.must(err)
		if a.State != acts.Stopped || a.Done != acts.Turn || a.Left != 1200-acts.Turn || a.EndedAt == nil {
			t.Errorf("%+v", a)
		}
	}
	if worked, err := s.Step(t.Context()); worked || err != nil {
		t.Error(worked, err)
	}
	if n := s.number("SELECT count(*) FROM millrace.act_batch"); n != 0 {
		t.Errorf("%d turns are left", n)
	}
	if _, err := s.Stop(t.Context(), 999); !errors.Is(err, acts.ErrNoAct) {
		t.Error(err)
	}
}

// TestCancel ends live items of a group that keep failing, and leaves alone what
// has ended meanwhile.
func TestCancel(t *testing.T) {
	s := open(t)
	shop := userqueue.EnqueueItem{Group: "shop"}
	ids := s.add(shop, shop, shop, userqueue.EnqueueItem{})
	commands := []queue.Command{{ID: ids[0]}, {ID: ids[1]}}
	s.move(item.Start, none, ids[0], ids[1])
	for i := range commands {
		commands[i].Delay, commands[i].Error = time.Hour, fmt.Sprintf("timeout %d", i)
	}
	_, err := s.own.Queues().Apply(t.Context(), s.mail, item.Again, commands)
	s.must(err)
	found, err := s.of.Failures(t.Context(), items.ItemFilter{Queue: "mail", State: "scheduled"}, userqueue.Visible{})
	if s.must(err); len(found.Groups) != 1 || found.Groups[0].Count != 2 {
		t.Errorf("%+v", found)
	}
	f := items.ItemFilter{Queue: "mail", Fingerprint: "timeout ‹n›"}
	if n, err := s.Count(t.Context(), acts.Request{Subject: items.Name, Move: items.Cancel, Filter: f}); err != nil || n.Matched != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Cancel, Filter: items.ItemFilter{Queue: "mail", Group: "shop"}, By: "ann"}, 3)
	s.move(item.Start, none, ids[2])
	s.move(item.Complete, none, ids[2])
	if a = s.finish(a.ID); a.Done != 2 || a.Skipped != 1 {
		t.Errorf("%+v %q", a, s.reasons(a.ID))
	}
	stored, err := s.own.Items(t.Context(), userqueue.Page{Queue: s.mail, State: "cancelled", Limit: 10})
	if s.must(err); len(stored) != 2 || stored[0].Error != fmt.Sprintf("cancelled by act %d", a.ID) {
		t.Errorf("%+v", stored)
	}
	a = s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: "mail", State: "cancelled"}}, 2)
	if a = s.finish(a.ID); a.Done != 2 {
		t.Errorf("%+v", a)
	}
}

// TestFiles retries the failed shards of a file, or of files by their names, at
// every stage, and none of a cancelled file.
func TestFiles(t *testing.T) {
	s := open(t)
	for _, name := range []string{"20250101000000", "20250102000000", "20250103000000"} {
		_, err := s.shards.Register(t.Context(), []tracking.Registration{{Filename: name, Shards: []int32{0, 1}}})
		s.must(err)
		s.stage(shard.EventIngest, item.Complete, name, 0, 1)
		s.stage(shard.Splitter, item.Start, name, 0)
		s.stage(shard.Splitter, item.Complete, name, 0)
		s.stage(shard.Worker, item.Fail, name, 0)
		s.stage(shard.Splitter, item.Fail, name, 1)
	}
	_, err := s.shards.Cancel(t.Context(), "20250103000000", "ann")
	s.must(err)
	for _, c := range []struct {
		f    items.ItemFilter
		want int
	}{
		{items.ItemFilter{Filename: "20250101000000"}, 2},
		{items.ItemFilter{Filename: "20250103000000"}, 0},
		{items.ItemFilter{Search: "202501"}, 4},
		{items.ItemFilter{Search: "%"}, 0},
		{items.ItemFilter{Queue: "shard-worker"}, 2},
		{items.ItemFilter{Queue: "shard-worker", State: "dead"}, 0},
		{items.ItemFilter{Queue: "shard-worker", Filename: "20250101000000", Fingerprint: "shard ‹n› is torn"}, 1},
	} {
		if n, err := s.Count(t.Context(), acts.Request{Subject: items.Name, Move: items.Retry, Filter: c.f}); err != nil || n.Matched != c.want {
			t.Errorf("%+v matches %+v, %v, want %d", c.f, n, err, c.want)
		}
	}
	a := s.begin(acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Filename: "20250101000000"}}, 2)
	s.stage(shard.Worker, item.Retry, "20250101000000", 0)
	if a = s.finish(a.ID); a.Done != 1 || a.Skipped != 1 {
		t.Errorf("%+v", a)
	}
	members, err := s.Members(t.Context(), a.ID)
	if s.must(err); len(members) != 1 {
		t.Fatalf("%+v", members)
	}
	for _, part := range []string{`"filename":"20250101000000"`, `"shard":0`, `"queue":"shard-worker"`} {
		if !strings.Contains(string(members[0].Details), part) {
			t.Errorf("%s, want %s", members[0].Details, part)
		}
	}
}

func (s *site) stage(stage shard.Stage, move item.Move, name string, shards ...int32) {
	s.Helper()
	commands := make([]queue.Command, len(shards))
	for i, n := range shards {
		commands[i] = queue.Command{Name: name, Part: n, Error: fmt.Sprintf("shard %d is torn", n)}
	}
	results, err := s.shards.Apply(s.Context(), stage, move, commands)
	s.must(err)
	for _, r := range results {
		if r.Outcome != item.Changed {
			s.Fatalf("%s at %s: %+v", move, stage, r)
		}
	}
}

// TestRules: what cannot be is refused with the field and the rule.
func TestRules(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		move string
		f    items.ItemFilter
		want string
	}{
		{items.Retry, items.ItemFilter{}, "queue"},
		{items.Retry, items.ItemFilter{Group: "g"}, "queue"},
		{"mend", items.ItemFilter{Queue: "mail"}, "move"},
		{items.Cancel, items.ItemFilter{Queue: "shard-worker"}, "move"},
		{items.Cancel, items.ItemFilter{Filename: "20250101000000"}, "move"},
		{items.Retry, items.ItemFilter{Queue: "mail", State: "new"}, "state"},
		{items.Cancel, items.ItemFilter{Queue: "mail", State: "failed"}, "state"},
		{items.Retry, items.ItemFilter{Queue: "shard-worker", State: "cancelled"}, "state"},
		{items.Retry, items.ItemFilter{Queue: "mail", Search: "2025"}, "queue"},
		{items.Retry, items.ItemFilter{Queue: "shard-worker", Key: "k"}, "queue"},
		{items.Retry, items.ItemFilter{Queue: "mail", Group: "a\nb"}, "group"},
		{items.Retry, items.ItemFilter{Search: "\x00"}, "search"},
		{items.Retry, items.ItemFilter{Filename: "a/b"}, "filename"},
	} {
		_, err := s.Count(t.Context(), acts.Request{Subject: items.Name, Move: c.move, Filter: c.f})
		var broken *item.Invalid
		if !errors.As(err, &broken) || broken.Field != c.want {
			t.Errorf("%s %+v: %v, want a rule of %s", c.move, c.f, err, c.want)
		}
	}
	for _, name := range []string{"mailless", "mail\x00", "event-ingest"} {
		if _, err := s.Count(t.Context(), acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Queue: name}}); !errors.Is(err, queue.ErrNoQueue) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := s.Count(t.Context(), acts.Request{Subject: items.Name, Move: items.Retry, Filter: items.ItemFilter{Filename: "29990101000000"}}); !errors.Is(err,
		tracking.ErrNoFile) {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), 1); !errors.Is(err, acts.ErrNoAct) {
		t.Error(err)
	}
}
