package scheduler

import (
	"context"
	"strings"
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
	was        string // its status
	attempt    int
	again      bool // it had ended
	started    *time.Time
	itemStatus string // empty: the item is gone
	trace      string // see stream.TraceOf; empty: the run is not traced
	cancelled  bool
	err        string
	result     *string
	taken      *time.Time
	updated    *time.Time

	status    string
	next      bool // its next attempt begins
	completed *time.Time
	duration  *float64
	articles  int32
}

// ended is a job whose runs have ended, or are under way again.
type ended struct {
	id               uuid.UUID
	source, status   string
	running          int // runs that have not ended
	active           int // those of them that a worker has
	failures         int
	attempts         int // of a run, at most
	retrySeconds     int
	base, most       int // minutes of backoff
	lastFailure      *time.Time
	backoff, lastEnd *time.Time
	buffered, wakes  bool
}

// Follow has runs and their jobs follow the changes of their items, in one
// transaction, and tells whether there may be more.
func (s *Scheduler) Follow(ctx context.Context) (more bool, err error) {
	begin := time.Now()
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
			if !j.stopped() {
				r.tryAgain(j.attempts)
			}
			if j != nil {
				j.follow(r)
			}
			if r.status == "queued" && j.stopped() {
				t.Batch.Queue("INSERT INTO millrace.job_stop (job_id) VALUES ($1)", r.job)
			}
		}
		if err := s.retry(ctx, t, runs, jobs); err != nil {
			return err
		}
		writeFollowed(t, runs)
		writeEnded(t, jobs)
		return nil
	})
	if err != nil {
		return false, err
	}
	s.tellFollowed(begin, runs)
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
	// The statement that waits for the lock would see the items as they were before it waited.
	t.Batch.Queue("SELECT FROM millrace.executions WHERE item_id = ANY ($1) ORDER BY id FOR UPDATE", items)
	t.Batch.Queue(text("runs"), items).Query(func(rows pgx.Rows) (err error) {
		runs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (*followed, error) {
			r := new(followed)
			return r, row.Scan(&r.id, &r.job, &r.item, &r.was, &r.attempt, &r.again, &r.started, &r.itemStatus, &r.cancelled, &r.err,
				&r.result, &r.taken, &r.updated, &r.trace)
		})
		return err
	})
	return runs, t.Flush(ctx)
}

func lockJobs(ctx context.Context, t *queue.Tx, runs []*followed, into map[uuid.UUID]*ended) error {
	var ids []uuid.UUID
	for _, r := range runs {
		if r.status != r.was || r.again || r.status == "queued" {
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
			return j, row.Scan(&j.id, &j.source, &j.status, &j.running, &j.active, &j.failures, &j.attempts,
				&j.retrySeconds, &j.base, &j.most, &j.lastFailure, &j.backoff, &j.lastEnd, &j.buffered)
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
		r.status, r.started = "queued", nil
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

// readResult takes what the worker says of articles and duration. What it does not say is
// none, and the time from its start. A member that breaks its rule counts as not said, and the
// error of the run says so.
func (r *followed) readResult(at time.Time) {
	var said job.Result
	if r.result != nil && r.status == "success" {
		var rules []string
		if said, rules = job.ReadResult([]byte(*r.result)); len(rules) > 0 {
			r.err = "the run succeeded, and a part of its result counts for nothing: " + strings.Join(rules, "; ")
		}
	}
	if said.Articles != nil {
		r.articles = *said.Articles
	}
	duration := 0.0
	if r.started != nil {
		duration = max(0, at.Sub(*r.started).Seconds())
	}
	if said.Duration != nil {
		duration = *said.Duration
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
	j.running = max(0, j.running+one(open(r.status))-one(open(r.was)))
	j.active = max(0, j.active+one(r.status == "running")-one(r.was == "running"))
	switch {
	case r.completed == nil:
	case r.status == "success":
		j.failures, j.lastFailure, j.backoff, j.lastEnd = 0, nil, nil, r.completed
	case r.status == "failed":
		j.failures++
		until := r.completed.Add(schedule.Backoff(j.base, j.most, j.failures))
		j.lastFailure, j.backoff, j.lastEnd = r.completed, &until, r.completed
	}
	if !j.stopped() {
		j.status = job.Status(j.active, j.failures)
	}
	j.wakes = j.wakes || j.buffered && r.completed != nil
}

// open tells whether a run in a status has not ended.
func open(status string) bool { return status == "queued" || status == "running" }

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// tryAgain has a run that has failed go on with its next attempt, if it may have one more.
func (r *followed) tryAgain(attempts int) {
	if r.status != "failed" || r.itemStatus != "failed" || r.attempt+one(r.again) >= attempts {
		return
	}
	r.status, r.next = "queued", true
	r.started, r.completed, r.duration, r.articles = nil, nil, nil, 0
}

// retry puts the items of runs whose next attempt begins back into the queue.
func (s *Scheduler) retry(ctx context.Context, t *queue.Tx, runs []*followed, jobs map[uuid.UUID]*ended) error {
	var commands []queue.Command
	for _, r := range runs {
		if r.next {
			first := time.Duration(jobs[r.job].retrySeconds) * time.Second
			commands = append(commands, queue.Command{
				ID: r.item, Worker: "scheduler", Delay: schedule.RetryDelay(first, r.attempt+one(r.again)),
			})
		}
	}
	if len(commands) == 0 {
		return nil
	}
	crawl, err := crawlQueue(ctx, t)
	if err == nil {
		_, err = s.queues.RetryIn(ctx, t, crawl, commands)
	}
	return err
}

func writeFollowed(t *queue.Tx, runs []*followed) {
	n := len(runs)
	ids, statuses, articles := make([]uuid.UUID, n), make([]string, n), make([]int32, n)
	started, completed := make([]*time.Time, n), make([]*time.Time, n)
	durations, errs, attempt := make([]*float64, n), make([]*string, n), make([]bool, n)
	for i, r := range runs {
		ids[i], statuses[i], articles[i] = r.id, r.status, r.articles
		started[i], completed[i], durations[i] = r.started, r.completed, r.duration
		attempt[i] = r.again || r.next
		if r.err != "" {
			errs[i] = &r.err
		}
	}
	t.Batch.Queue(text("follow_runs"), ids, statuses, started, completed, durations, articles, errs, attempt)
}

func writeEnded(t *queue.Tx, jobs map[uuid.UUID]*ended) {
	var ids []uuid.UUID
	var statuses []string
	var running, active []int16
	var failures []int32
	var last, backoff, lastEnd []*time.Time
	var wakes []bool
	for _, j := range jobs {
		ids, statuses, running = append(ids, j.id), append(statuses, j.status), append(running, int16(j.running))
		active = append(active, int16(j.active))
		failures, last, backoff = append(failures, int32(j.failures)), append(last, j.lastFailure),
			append(backoff, j.backoff)
		lastEnd = append(lastEnd, j.lastEnd)
		wakes = append(wakes, j.wakes)
	}
	if len(ids) > 0 {
		t.Batch.Queue(text("follow_jobs"), ids, statuses, running, active, failures, last, backoff, lastEnd, wakes)
	}
}
