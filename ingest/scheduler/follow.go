package scheduler

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/schemas/job"
)

// changesAtOnce is how many changes of items one transaction follows.
const changesAtOnce = 1000

// change is the last change of an item that is a run.
type change struct {
	status, err string
	at          time.Time
}

// followed is a run whose item has changed.
type followed struct {
	id, job    uuid.UUID
	item       int64
	again      bool // it had ended
	started    *time.Time
	itemStatus string // empty: the item is gone
	cancelled  bool
	err        string
	result     *string
	taken      *time.Time
	updated    *time.Time

	status    string
	completed *time.Time
	duration  *float64
	articles  int32
}

// ended is a job whose runs have ended, or are under way again.
type ended struct {
	id                uuid.UUID
	source, status    string
	running, failures int
	interval          int // minutes
	lastFailure       *time.Time
	backoff           *time.Time
	buffered, wakes   bool
}

// Follow has runs and their jobs follow the changes of their items, in one
// transaction, and tells whether there may be more.
func (s *Scheduler) Follow(ctx context.Context) (more bool, err error) {
	var taken int
	var changes map[int64]change
	var runs []*followed
	var jobs map[uuid.UUID]*ended
	err = s.queues.Queues().Transact(ctx, "follow runs", func(t *queue.Tx) error {
		changes, runs, jobs = map[int64]change{}, nil, map[uuid.UUID]*ended{}
		if taken, err = takeChanges(ctx, t, changes); err != nil || taken == 0 {
			return err
		}
		if runs, err = lockRuns(ctx, t, changes); err != nil || len(runs) == 0 {
			return err
		}
		for _, r := range runs {
			r.decide(changes[r.item])
		}
		if err := lockJobs(ctx, t, runs, jobs); err != nil {
			return err
		}
		for _, r := range runs {
			j := jobs[r.job]
			if j != nil {
				j.follow(r)
			}
			if r.status == "queued" && j.stopped() {
				t.Batch.Queue("INSERT INTO millrace.job_stop (job_id) VALUES ($1)", r.job)
			}
		}
		writeFollowed(t, runs)
		writeEnded(t, jobs)
		return nil
	})
	if err != nil {
		return false, err
	}
	for _, r := range runs {
		if j := jobs[r.job]; j != nil && r.completed != nil {
			s.metrics.duration.WithLabelValues(j.source, r.status).Observe(*r.duration)
			s.metrics.articles.WithLabelValues(j.source).Add(float64(r.articles))
		}
	}
	return taken == changesAtOnce, nil
}

// takeChanges takes the oldest changes, of which an item may have several, and returns how
// many they were.
func takeChanges(ctx context.Context, t *queue.Tx, into map[int64]change) (taken int, err error) {
	t.Batch.Queue(text("changes"), changesAtOnce).Query(func(rows pgx.Rows) error {
		var id int64
		var c change
		_, err := pgx.ForEachRow(rows, []any{&id, &c.status, &c.err, &c.at, &taken}, func() error {
			into[id] = c
			return nil
		})
		return err
	})
	err = t.Flush(ctx)
	return taken, err
}

func lockRuns(ctx context.Context, t *queue.Tx, changes map[int64]change) (runs []*followed, err error) {
	items := make([]int64, 0, len(changes))
	for id := range changes {
		items = append(items, id)
	}
	t.Batch.Queue(text("runs"), items).Query(func(rows pgx.Rows) (err error) {
		runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*followed, error) {
			r := new(followed)
			return r, row.Scan(&r.id, &r.job, &r.item, &r.again, &r.started, &r.itemStatus, &r.cancelled, &r.err,
				&r.result, &r.taken, &r.updated)
		})
		return err
	})
	return runs, t.Flush(ctx)
}

func lockJobs(ctx context.Context, t *queue.Tx, runs []*followed, into map[uuid.UUID]*ended) error {
	var ids []uuid.UUID
	for _, r := range runs {
		if r.again || r.completed != nil || r.status == "queued" {
			ids = append(ids, r.job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	t.Batch.Queue("SELECT FROM millrace.job_status WHERE id = ANY ($1) ORDER BY id FOR UPDATE", ids)
	t.Batch.Queue(text("ended_jobs"), ids).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*ended, error) {
			j := new(ended)
			return j, row.Scan(&j.id, &j.source, &j.status, &j.running, &j.failures, &j.interval,
				&j.lastFailure, &j.backoff, &j.buffered)
		})
		for _, j := range all {
			into[j.id] = j
		}
		return err
	})
	return t.Flush(ctx)
}

// decide says what a run is by what its item is, or was last where that is gone.
func (r *followed) decide(last change) {
	at := last.at
	if r.itemStatus != "" {
		last.status, last.err = r.itemStatus, r.err
		if r.updated != nil {
			at = *r.updated
		}
	}
	if r.taken != nil {
		r.started = r.taken
	}
	r.err = last.err
	switch last.status {
	case "new":
		r.status, r.started, r.err = "queued", nil, ""
		return
	case "started":
		r.status, r.err = "running", ""
		return
	case "done":
		r.status, r.err = "success", ""
	case "deleted":
		r.status, r.err = "cancelled", "its item was deleted"
	default:
		if r.status = "failed"; r.cancelled {
			r.status = "cancelled"
		}
	}
	r.completed = &at
	r.readResult(at)
}

// readResult takes what the worker says of articles and duration, where it is
// possible. What it does not say is none, and the time from its start.
func (r *followed) readResult(at time.Time) {
	var said struct {
		Articles *float64 `json:"articles_count"`
		Duration *float64 `json:"duration_seconds"`
	}
	if r.result != nil && r.status == "success" {
		_ = json.Unmarshal([]byte(*r.result), &said) // a result may be anything
	}
	if a := said.Articles; a != nil && *a >= 0 && *a <= math.MaxInt32 {
		r.articles = int32(*a)
	}
	duration := 0.0
	if r.started != nil {
		duration = max(0, at.Sub(*r.started).Seconds())
	}
	if d := said.Duration; d != nil && *d >= 0 && *d <= (365*24*time.Hour).Seconds() {
		duration = *d
	}
	r.duration = &duration
}

// stopped tells whether the job runs no more: nil is one that was deleted.
func (j *ended) stopped() bool {
	return j == nil || j.status == job.Paused || j.status == job.Orphaned
}

// follow has a job follow the end of a run, or that a run is under way again. One that
// was cancelled is no failure.
func (j *ended) follow(r *followed) {
	switch {
	case r.completed == nil && !r.again:
		return
	case r.completed == nil:
		j.running++
	case !r.again:
		j.running = max(0, j.running-1)
	}
	switch r.status {
	case "success":
		j.failures, j.lastFailure, j.backoff = 0, nil, nil
	case "failed":
		j.failures++
		until := r.completed.Add(schedule.Backoff(j.interval, j.failures))
		j.lastFailure, j.backoff = r.completed, &until
	}
	if !j.stopped() {
		j.status = job.Status(j.running, j.failures)
	}
	j.wakes = j.wakes || j.buffered && r.completed != nil
}

func writeFollowed(t *queue.Tx, runs []*followed) {
	n := len(runs)
	ids, statuses, articles := make([]uuid.UUID, n), make([]string, n), make([]int32, n)
	started, completed := make([]*time.Time, n), make([]*time.Time, n)
	durations, errs, again := make([]*float64, n), make([]*string, n), make([]bool, n)
	for i, r := range runs {
		ids[i], statuses[i], articles[i] = r.id, r.status, r.articles
		started[i], completed[i], durations[i] = r.started, r.completed, r.duration
		again[i] = r.again
		if r.err != "" {
			errs[i] = &r.err
		}
	}
	t.Batch.Queue(text("follow_runs"), ids, statuses, started, completed, durations, articles, errs, again)
}

func writeEnded(t *queue.Tx, jobs map[uuid.UUID]*ended) {
	var ids []uuid.UUID
	var statuses []string
	var running []int16
	var failures []int32
	var last, backoff []*time.Time
	var wakes []bool
	for _, j := range jobs {
		ids, statuses, running = append(ids, j.id), append(statuses, j.status), append(running, int16(j.running))
		failures, last, backoff = append(failures, int32(j.failures)), append(last, j.lastFailure),
			append(backoff, j.backoff)
		wakes = append(wakes, j.wakes)
	}
	if len(ids) > 0 {
		t.Batch.Queue(text("follow_jobs"), ids, statuses, running, failures, last, backoff, wakes)
	}
}
