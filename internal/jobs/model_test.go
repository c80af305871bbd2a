package jobs

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// began is when the events of tests begin.
var began = time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)

// said writes an event as a publisher does, and reads it as a consumer does.
func said(kind string, id uuid.UUID, seq int64, payload any) Event {
	at := began.Add(time.Duration(seq) * time.Second)
	text, err := json.Marshal(source.Event{ID: uuid.New(), Type: kind, SourceID: id, Timestamp: at, Payload: payload})
	if err != nil {
		panic(err)
	}
	e, rule := source.ReadEvent(text)
	if rule != nil {
		panic(fmt.Sprintf("%s: %v", text, rule))
	}
	return Event{Told: e, Seq: seq, Stored: at}
}

// end is what a source and its job are in the end.
type end struct {
	live, job bool
	source.Fields
}

// history makes the events of sources at random, in the order of the stream, and what
// they come to when they are applied one after the other.
func history(r *rand.Rand, n int) (all []Event, want map[uuid.UUID]end) {
	seq := int64(0)
	next := func() int64 { seq += 1 + r.Int64N(3); return seq }
	want = map[uuid.UUID]end{}
	var lives [][]Event
	for range n {
		id := uuid.New()
		now := end{}
		var mine []Event
		for life := range 1 + r.IntN(2) {
			if life > 0 { // others may make a source again that they have deleted
				mine = append(mine, said(source.Deleted, id, next(), source.Deletion{Name: now.Name}))
				now = end{}
			}
			now.live, now.Fields = true, anything(r)
			now.Enabled = now.Enabled || life > 0
			now.job = now.Enabled
			created := now.Fields
			early := life == 0 && r.IntN(4) == 0 // an update overtakes the creation on the stream
			var first int64
			if early {
				first = next()
			}
			mine = append(mine, said(source.Created, id, next(), created))
			if early {
				mine = append(mine, update(r, &now, id, first))
			}
			for range r.IntN(6) {
				mine = append(mine, update(r, &now, id, next()))
			}
		}
		if r.IntN(4) == 0 {
			mine = append(mine, said(source.Deleted, id, next(), source.Deletion{Name: now.Name}))
			now = end{}
		}
		want[id] = now
		lives = append(lives, mine)
	}
	return slices.Concat(lives...), want
}

func anything(r *rand.Rand) source.Fields {
	f := source.New()
	f.Name, f.URL = fmt.Sprint("Source ", r.IntN(100)), fmt.Sprintf("https://example.com/%d", r.IntN(100))
	f.RateLimit, f.MaxDepth, f.Enabled = 1+r.IntN(30), 1+r.IntN(8), r.IntN(3) > 0
	f.Selectors = json.RawMessage(fmt.Sprintf(`{"title":"h%d"}`, r.IntN(6)))
	f.Priority = source.Priorities[r.IntN(len(source.Priorities))]
	return f
}

// update makes an event that changes some of the fields of a source.
func update(r *rand.Rand, now *end, id uuid.UUID, seq int64) Event {
	if r.IntN(3) == 0 {
		now.Enabled = r.IntN(2) == 0
		now.job = now.job || now.Enabled
		return said(map[bool]string{true: source.Enabled, false: source.Disabled}[now.Enabled], id, seq,
			source.Toggle{})
	}
	other, u := anything(r), source.Update{Current: map[string]any{}}
	for _, name := range source.Names {
		if name != "enabled" && r.IntN(3) == 0 {
			u.ChangedFields = append(u.ChangedFields, name)
			u.Current[name] = other.Field(name)
			now.Fields = now.With(name, other)
		}
	}
	if u.ChangedFields == nil {
		u.ChangedFields = []string{}
	}
	return said(source.Updated, id, seq, u)
}

// TestAnyOrder holds invariant 2 for the fold alone: whatever the order, the sources
// end as if the events had come one after the other.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		events, want := history(r, 1)
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		states := map[uuid.UUID]*state{}
		order := ""
		for left := events; len(left) > 0; {
			var again []Event
			for _, e := range left {
				now, done := apply(states[e.SourceID], e, nil)
				if done.unknown {
					again = append(again, e)
					continue
				}
				states[e.SourceID] = now
				order += fmt.Sprintf(" %s@%d", e.Type, e.Seq)
			}
			if len(again) == len(left) {
				t.Fatalf("seed %d: nothing is known of the sources of %d events", seed, len(left))
			}
			left = again
		}
		for id, end := range want {
			s := states[id]
			if s.gone() == end.live || end.live && len(source.Changed(s.Fields, end.Fields)) > 0 {
				t.Fatalf("seed %d:%s\nis %+v\nwant %+v", seed, order, *s, end)
			}
		}
	}
}

// TestTwoConsumers holds invariants 1 and 2: two consumers at once, with blocks of
// events in any order, of which some come again, end with the jobs that the sources
// have to have.
func TestTwoConsumers(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			store := newStore(t, Config{Patience: time.Hour})
			events, want := history(r, 60)
			for range len(events) / 4 { // were acknowledged too late
				events = append(events, events[r.IntN(len(events))])
			}
			r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
			half := len(events) / 2
			var both sync.WaitGroup
			for _, mine := range [][]Event{events[:half], events[half:]} {
				source := rand.New(rand.NewPCG(seed, uint64(len(mine))))
				both.Go(func() { deliver(t, store, mine, source) })
			}
			both.Wait()
			settled(t, store, want)
		})
	}
}

// deliver hands in events in blocks until none of them waits.
func deliver(t *testing.T, store *Store, events []Event, r *rand.Rand) {
	for end := time.Now().Add(5 * time.Minute); len(events) > 0; {
		var again []Event
		for _, part := range parts(events, r) {
			outcomes, _, err := store.Handle(t.Context(), part, nil)
			if err != nil {
				t.Error(err)
				return
			}
			for i, outcome := range outcomes {
				if outcome == Waiting {
					again = append(again, part[i])
				}
			}
		}
		events = again
		if time.Now().After(end) {
			t.Errorf("%d events wait still", len(events))
			return
		}
	}
}

// parts cuts events into blocks, in each of which an event is once.
func parts(events []Event, r *rand.Rand) (all [][]Event) {
	var part []Event
	for _, e := range events {
		if len(part) > r.IntN(20) || slices.ContainsFunc(part, func(other Event) bool { return other.Seq == e.Seq }) {
			all, part = append(all, part), nil
		}
		part = append(part, e)
	}
	return append(all, part)
}

// settled holds that jobs are what sources have come to.
func settled(t *testing.T, store *Store, want map[uuid.UUID]end) {
	t.Helper()
	n := 0
	for id, end := range want {
		d, err := store.OfSource(t.Context(), id)
		if !end.job {
			if err == nil {
				t.Errorf("source %s has the job %+v, want none", id, d.Job)
			}
			continue
		}
		n++
		if err != nil {
			t.Errorf("source %s: %v, want %+v", id, err, end)
			continue
		}
		status := map[bool]string{true: job.Pending, false: job.Paused}[end.Enabled]
		c := schedule.Compute(input(end.Fields))
		if d.SourceName != end.Name || d.URL != end.URL || d.RateLimit != end.RateLimit || d.MaxDepth != end.MaxDepth ||
			string(d.Selectors) != string(end.Selectors) || d.Status != status || d.Priority != c.Priority ||
			d.IntervalMinutes != c.IntervalMinutes || d.MaxConcurrent != c.MaxConcurrent {
			t.Errorf("the job is %+v\nwant %s of %+v, every %d minutes", d.Job, status, end, c.IntervalMinutes)
		}
	}
	if all, err := store.Count(t.Context(), Filter{}); err != nil || all != int64(n) {
		t.Errorf("there are %d jobs, %v, want %d", all, err, n)
	}
	schedules(t, store)
}

// schedules holds invariant 5: the schedules of each job follow each other without
// gaps, and the last one is that of the job.
func schedules(t *testing.T, store *Store) {
	t.Helper()
	var wrong int
	err := store.pool.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM millrace.job_schedule AS a JOIN millrace.job_schedule AS b
			ON b.job_id = a.job_id AND b.version = a.version + 1 JOIN millrace.jobs AS j ON j.id = a.job_id
			WHERE a.to_at IS DISTINCT FROM b.from_at)
		+ (SELECT count(*) FROM millrace.jobs AS j LEFT JOIN millrace.job_schedule AS s
			ON s.job_id = j.id AND s.to_at IS NULL AND s.version = j.schedule_version
			WHERE s.job_id IS NULL OR s.paused <> (j.status IN ('paused', 'orphaned')) OR s.kind <> j.schedule_kind
				OR s.interval_minutes IS DISTINCT FROM CASE WHEN s.kind = 'interval' THEN j.interval_minutes END)
		+ (SELECT count(*) FROM millrace.job_schedule AS s
			WHERE s.to_at IS NULL AND NOT EXISTS (SELECT FROM millrace.jobs AS j WHERE j.id = s.job_id))`).Scan(&wrong)
	if err != nil || wrong > 0 {
		t.Errorf("%d schedules do not follow each other, %v", wrong, err)
	}
}

func newStore(t *testing.T, cfg Config) *Store {
	t.Helper()
	store, err := New(cfg, engine.Pool(t, queue.Configure))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counted(t, store) })
	return store
}
