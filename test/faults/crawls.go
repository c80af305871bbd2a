package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// crawlQueue is the queue whose items are runs of jobs.
const crawlQueue = "crawl"

// Of the people who look after sources.
const (
	editors       = 4
	sourcesEach   = 15
	sourcesBegin  = "https://example.com/"
	bulkSize      = 500
	betweenEdits  = 500 * time.Millisecond // about
	betweenMaking = 50 * time.Millisecond
)

// crawls is the third workload: sources are made, changed and deleted, and their
// jobs too, while schedulers have the jobs run and a crew works the runs.
type crawls struct {
	*crew
	dsn   recordOf
	js    jetstream.JetStream // over no wire
	begin time.Time
	river []*clock // of the brokers

	mu    sync.Mutex
	known map[string]*crawlSource // sources that are known to have been made, by their ids
	acts  map[string]int          // that were answered
}

// crawlSource is a source, and how its job is to run.
type crawlSource struct {
	id, job string // the job is empty while it is not known
	most    int
	overlap string
	set     bool // how it runs
	gone    bool // somebody has asked for that
}

func newCrawls(seed uint64, c *cluster, js jetstream.JetStream) *crawls {
	s := &crawls{
		crew: newCrew(seed, c, newWorkNotes(c.postgres.clock), crawlQueue), js: js, begin: time.Now(),
		dsn: recordOf(c.postgresURL(c.postgresAddr)), known: map[string]*crawlSource{},
		acts: map[string]int{},
	}
	s.own = true
	s.taken = func(piece) bool { return true } // cancel_other takes runs away
	for _, p := range c.brokers() {
		s.river = append(s.river, p.clock)
	}
	return s
}

// run has people look after sources until editing ends, and works runs until working
// ends.
func (s *crawls) run(editing, working context.Context) error {
	g, working := errgroup.WithContext(working)
	for i := range editors {
		g.Go(func() error {
			e := &editor{crawls: s, random: rand.New(rand.NewPCG(s.seed, 40+uint64(i))), name: i}
			e.run(editing)
			return nil
		})
	}
	g.Go(func() error { s.dsn.shortenLease(working, crawlQueue); return nil })
	g.Go(func() error { return s.work(working) })
	return g.Wait()
}

// shortenLease gives a queue the lease of other work, once it is there: what a killed worker
// had comes back within the run.
func (url recordOf) shortenLease(ctx context.Context, queue string) {
	for done := false; !done && ctx.Err() == nil; wait(ctx, time.Second) {
		var one int
		_ = url.read(ctx, fmt.Sprintf("UPDATE millrace.stage SET lease_s = %v WHERE name = '%s' RETURNING 1",
			workLease.Seconds(), queue), []any{&one}, func() error { done = true; return nil })
	}
}

// finish waits until all events about sources are followed, pauses all jobs, and waits
// until every due time that has passed is decided and every run has ended.
func (s *crawls) finish(ctx context.Context) error {
	s.honest.Store(true)
	if err := untilHolds(ctx, s.followed); err != nil {
		return fmt.Errorf("jobs do not follow their sources: %w", err)
	}
	if s.moved(s.river...) { // an event may be taken for one that is a week old
		s.demand(ctx, http.MethodPost, "/jobs/reconcile", nil, nil)
	}
	if err := s.pauseAll(ctx); err != nil {
		return err
	}
	if err := untilHolds(ctx, s.decided); err != nil {
		return fmt.Errorf("the schedulers have not caught up: %w", err)
	}
	return nil
}

// untilHolds waits until something holds, and says what does not when ctx ends.
func untilHolds(ctx context.Context, holds func(context.Context) error) error {
	left := errors.New("no answer from Postgres")
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := holds(attempt)
		cancel()
		if err == nil {
			return nil
		}
		left = err
		wait(ctx, 200*time.Millisecond)
	}
	return left
}

// followed is an error while an event about a source is under way.
func (s *crawls) followed(ctx context.Context) error {
	var outbox int
	err := s.dsn.read(ctx, "SELECT count(*) FROM millrace.message_outbox", []any{&outbox}, func() error { return nil })
	if err != nil {
		return err
	}
	st, err := s.js.Stream(ctx, stream.Sources)
	if err != nil {
		return err
	}
	var position uint64
	var waiting int
	err = s.dsn.read(ctx, `SELECT coalesce((SELECT seq FROM millrace.work_position WHERE stream = 'SOURCES'), 0),
		(SELECT count(*) FROM millrace.processed_events WHERE outcome = 'waiting')`, []any{&position, &waiting},
		func() error { return nil })
	if err != nil {
		return err
	}
	if last := st.CachedInfo().State.LastSeq; outbox+waiting > 0 || position < last {
		return fmt.Errorf("in the outbox %d, applied %d of %d, waiting %d", outbox, position, last, waiting)
	}
	return nil
}

// pauseAll pauses every job, as somebody does who wants to see all runs at their ends.
func (s *crawls) pauseAll(ctx context.Context) error {
	var ids []string
	var id string
	err := s.dsn.read(ctx, "SELECT id::text FROM millrace.jobs ORDER BY id", []any{&id}, func() error {
		ids = append(ids, id)
		return nil
	})
	for ; err == nil && len(ids) > 0; ids = ids[min(bulkSize, len(ids)):] {
		body := map[string]any{"operation": "pause", "ids": ids[:min(bulkSize, len(ids))]}
		if r := s.demand(ctx, http.MethodPost, "/jobs/bulk", body, nil); r.status != http.StatusOK {
			err = fmt.Errorf("pause all jobs: status %d", r.status)
		}
	}
	return err
}

// decided is an error that says what is still to be decided, or to end. A run that is
// to begin later, since the clock was wrong, need not.
func (s *crawls) decided(ctx context.Context) error {
	var due, changes, live int
	err := s.dsn.read(ctx, `SELECT (SELECT count(*) FROM millrace.jobs WHERE due_at <= now() - interval '1 second'),
		(SELECT count(*) FROM millrace.run_change) + (SELECT count(*) FROM millrace.job_stop),
		(SELECT count(*) FROM millrace.executions AS e WHERE status IN ('queued', 'running')
			AND NOT EXISTS (SELECT FROM millrace.delayed AS d WHERE d.item_id = e.item_id))`,
		[]any{&due, &changes, &live}, func() error { return nil })
	if err == nil && due+changes+live > 0 {
		err = fmt.Errorf("%d jobs are due, %d changes of runs and stops of jobs are not followed, %d runs go on", due, changes, live)
	}
	return err
}

// beyond waits until a run has been worked that was taken after a moment.
func (s *crawls) beyond(begin time.Time, limit time.Duration) bool {
	return within(limit, func() bool { return s.notes.lastDone().After(begin) })
}

// moved tells whether any of some clocks has been wrong in this run.
func (s *crawls) moved(clocks ...*clock) bool {
	for _, c := range clocks {
		if c.everMoved() {
			return true
		}
	}
	return false
}

func (s *crawls) acted(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts[what]++
}
