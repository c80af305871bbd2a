package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// Outcome is what became of an event.
type Outcome string

// Outcomes of events.
const (
	Applied   Outcome = "applied"
	Stale     Outcome = "stale"     // later events had said everything
	Duplicate Outcome = "duplicate" // it was processed before
	Waiting   Outcome = "waiting"   // its source is not known yet: see Store.Waiting
	Dead      Outcome = "dead"      // its source did not become known, or the event is from the future
)

// Counts are what events have done to jobs.
type Counts struct{ Created, Updated, Deleted int }

// Handle applies events in one transaction, in the order of their sequences, and says
// what became of each. They have different sequences. also, unless it is nil, is called
// with the outcomes and may add statements; its error undoes everything.
func (s *Store) Handle(
	ctx context.Context, events []Event, also func([]Outcome, *pgx.Batch) error,
) (outcomes []Outcome, n Counts, err error) {
	err = s.transact(ctx, fmt.Sprintf("apply %d events of sources", len(events)), func(c *change) error {
		h := &handling{change: c, cfg: s.cfg, notes: map[uuid.UUID]note{}}
		if h.leaves, err = c.leaves(ctx, s.cfg); err != nil {
			return err
		}
		outcomes, err = h.all(ctx, events)
		if n = h.counts; err != nil || also == nil {
			return err
		}
		return also(outcomes, &c.batch)
	})
	return outcomes, n, err
}

// seen is an event that was processed before, or that waits.
type seen struct {
	outcome Outcome
	seq     int64
	at      time.Time
}

// handling is a transaction that applies events.
type handling struct {
	*change
	cfg    Config
	leaves bool // sources without a job
	seen   map[uuid.UUID]seen
	states map[uuid.UUID]*state
	rows   map[uuid.UUID]*source.CrawlSource
	jobs   map[uuid.UUID]*record // by their sources
	given  map[uuid.UUID]pending // settings for jobs that are made
	counts Counts
	notes  map[uuid.UUID]note
}

func (h *handling) all(ctx context.Context, events []Event) ([]Outcome, error) {
	if err := h.load(ctx, events); err != nil {
		return nil, err
	}
	stored := map[uuid.UUID]bool{}
	for id := range h.states {
		stored[id] = true
	}
	had := map[uuid.UUID]*record{}
	maps.Copy(had, h.jobs)
	outcomes, touched := make([]Outcome, len(events)), map[uuid.UUID]bool{}
	order := make([]int, len(events))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(events[a].Seq - events[b].Seq) })
	for _, i := range order {
		var err error
		if outcomes[i], err = h.one(events[i]); err != nil {
			return nil, err
		}
		touched[events[i].SourceID] = true
	}
	for _, id := range sorted(touched) {
		if s := h.states[id]; s != nil {
			h.saveState(s, !stored[id])
		}
		h.settle(had[id], h.jobs[id])
	}
	h.writeNotes()
	return outcomes, nil
}

// settle writes what became of a job.
func (h *handling) settle(was, now *record) {
	if was != nil && was != now {
		h.remove(was)
		h.counts.Deleted++
	}
	switch {
	case now == nil || !now.dirty:
		return
	case now.fresh:
		h.counts.Created++
	default:
		h.counts.Updated++
	}
	h.save(now)
}

func sorted(ids map[uuid.UUID]bool) []uuid.UUID {
	all := make([]uuid.UUID, 0, len(ids))
	for id := range ids {
		all = append(all, id)
	}
	slices.SortFunc(all, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	return all
}

// load reads what the events are about. The states come first, and are held: whatever
// is read after them is as it is when no other consumer works on these sources.
func (h *handling) load(ctx context.Context, events []Event) error {
	about, ids := map[uuid.UUID]bool{}, make([]uuid.UUID, len(events))
	for i, e := range events {
		about[e.SourceID], ids[i] = true, e.ID
	}
	ofSources := sorted(about)
	var err error
	if h.states, err = h.lockStates(ctx, ofSources); err != nil {
		return err
	}
	if h.seen, err = h.lookUp(ctx, ids); err != nil {
		return err
	}
	all, err := sources(ctx, h, "WHERE id = ANY ($1)", ofSources)
	if err != nil {
		return err
	}
	h.rows = map[uuid.UUID]*source.CrawlSource{}
	for i := range all {
		h.rows[all[i].ID] = &all[i]
	}
	records, err := h.lockJobs(ctx, "source_id", ofSources)
	if err != nil {
		return err
	}
	h.jobs = byID(records, func(r *record) uuid.UUID { return r.SourceID })
	h.given, err = h.pending(ctx, slices.DeleteFunc(ofSources, func(id uuid.UUID) bool { return h.jobs[id] != nil }))
	return err
}

func (h *handling) lookUp(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]seen, error) {
	rows, _ := h.Query(ctx,
		"SELECT event_id, outcome, seq, processed_at FROM millrace.processed_events WHERE event_id = ANY ($1)", ids)
	all := map[uuid.UUID]seen{}
	_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var id uuid.UUID
		var one seen
		err := row.Scan(&id, &one.outcome, &one.seq, &one.at)
		all[id] = one
		return struct{}{}, err
	})
	return all, err
}

// one applies an event.
func (h *handling) one(e Event) (Outcome, error) {
	before, again := h.seen[e.ID]
	switch {
	case again && before.outcome == Dead && before.seq == e.Seq:
		return Dead, nil
	case again && before.outcome == Waiting && before.seq < e.Seq, // that one has its turn, by its own sequence
		again && before.outcome != Waiting && before.outcome != Dead:
		return Duplicate, nil
	}
	since := h.now
	if again && before.outcome == Waiting {
		since = before.at
	}
	had := h.jobs[e.SourceID]
	status := had.status()
	now, done := apply(h.states[e.SourceID], e, h.rows[e.SourceID])
	switch {
	case done.refused:
		return Dead, h.refuse(e, now, done)
	case done.unknown && h.now.Sub(since) < h.cfg.Patience:
		h.note(e, Waiting, nil, "nothing is known of its source yet", since)
		return Waiting, nil
	case done.unknown:
		h.note(e, Dead, nil, "nothing is known of its source", h.now)
		return Dead, nil
	case done.stale && (had != nil || !done.wanted):
		h.states[e.SourceID] = now
		h.note(e, Stale, had, "later events have said all of it", h.now)
		return Stale, nil
	}
	h.states[e.SourceID] = now
	if err := h.follow(now, done); err != nil {
		return "", err
	}
	has := h.jobs[e.SourceID]
	of := has
	if of == nil {
		of = had
	}
	h.note(e, Applied, of, told(status, has.status(), done.changed), h.now)
	return Applied, nil
}

// refuse notes an event that is refused. Its source is taken as it is in the table, if
// it is there.
func (h *handling) refuse(e Event, now *state, done effect) error {
	of := h.jobs[e.SourceID]
	if h.rows[e.SourceID] != nil {
		h.states[e.SourceID] = now
		if err := h.follow(now, done); err != nil {
			return err
		}
	}
	h.note(e, Dead, of, "its time is in the future", h.now)
	return nil
}

// follow has the job of a source follow it.
func (h *handling) follow(s *state, done effect) error {
	r := h.jobs[s.id]
	var err error
	switch {
	case s.gone():
		delete(h.jobs, s.id)
	case r != nil:
		err = r.follow(s, done.enabled, h.change)
	case (s.Enabled || done.wanted) && !h.leaves:
		h.jobs[s.id], err = h.make(s, job.FromEvent, h.given)
	}
	return err
}

// note remembers what became of an event. What was applied stays so.
func (h *handling) note(e Event, outcome Outcome, of *record, detail string, at time.Time) {
	h.seen[e.ID] = seen{outcome, e.Seq, at}
	h.notes[e.ID] = note{e, outcome, of.id(), detail, at}
}

// note is what is remembered of an event.
type note struct {
	Event
	outcome Outcome
	job     *uuid.UUID
	detail  string
	at      time.Time
}

// writeNotes writes what is remembered, in the order of ids: two transactions do not
// wait for each other.
func (h *handling) writeNotes() {
	ids := make(map[uuid.UUID]bool, len(h.notes))
	for id := range h.notes {
		ids[id] = true
	}
	order := sorted(ids)
	n := len(order)
	types, of, seqs, happened := make([]string, n), make([]uuid.UUID, n), make([]int64, n), make([]time.Time, n)
	outcomes, jobs, details, at := make([]string, n), make([]*uuid.UUID, n), make([]string, n), make([]time.Time, n)
	for i, id := range order {
		one := h.notes[id]
		types[i], of[i], seqs[i], happened[i] = one.Type, one.SourceID, one.Seq, one.Timestamp
		outcomes[i], jobs[i], details[i], at[i] = string(one.outcome), one.job, one.detail, one.at
	}
	h.batch.Queue(`INSERT INTO millrace.processed_events AS p
			(event_id, event_type, source_id, seq, event_at, outcome, job_id, detail, processed_at)
		SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::bigint[], $5::timestamptz[], $6::text[],
		$7::uuid[],
			$8::text[], $9::timestamptz[])
		ON CONFLICT (event_id) DO UPDATE SET outcome = excluded.outcome, seq = excluded.seq, job_id = excluded.job_id,
			detail = excluded.detail, processed_at = excluded.processed_at
		WHERE p.outcome IN ('waiting', 'dead')`, order, types, of, seqs, happened, outcomes, jobs, details, at)
}

// Forget deletes what is remembered of events that were processed more than seven days
// ago.
func (s *Store) Forget(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, "DELETE FROM millrace.processed_events WHERE processed_at < now() - $1::interval", keep)
	if err != nil {
		return fmt.Errorf("forget events: %w", err)
	}
	return nil
}
