package scheduler

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/item"
)

// dispatch decides about a batch of jobs, and returns when there is more to decide; 0: at
// once, else between half of Config.Every and all of it. Jobs that are due one shortly after
// the other share a transaction, so that others have the processor meanwhile.
func (s *Scheduler) dispatch(ctx context.Context) (wait time.Duration, err error) {
	begin := time.Now()
	var jobs []*due
	var more bool
	err = s.queues.Queues().Transact(ctx, "dispatch jobs", func(t *queue.Tx) error {
		more, wait = false, s.cfg.Every
		if jobs, err = s.lock(ctx, t); err != nil {
			return err
		}
		if len(jobs) == 0 {
			s.next(t, &wait)
			return nil
		}
		room := s.cfg.Page * 4
		for i, j := range jobs {
			if room <= 0 { // the others stay due
				jobs, more = jobs[:i], true
				break
			}
			s.decideOrWait(j, min(s.cfg.Page, room))
			room -= len(j.ledger)
		}
		if err := s.enqueue(ctx, t, jobs); err != nil {
			return err
		}
		if err := cancelOthers(ctx, t, jobs); err != nil {
			return err
		}
		write(t, jobs)
		if more = more || len(jobs) == s.cfg.Batch || anyDue(jobs); !more {
			s.next(t, &wait)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	s.metrics.cycles.Inc()
	s.metrics.look.Observe(time.Since(begin).Seconds())
	s.count(jobs)
	endTraces(jobs)
	if more {
		return 0, nil
	}
	return wait, nil
}

// next asks when the next job is due, as far as what has been decided says. People may
// have one be due sooner.
func (s *Scheduler) next(t *queue.Tx, wait *time.Duration) {
	t.Batch.Queue(sqlNextDue).QueryRow(func(r pgx.Row) error {
		var seconds *float64
		err := r.Scan(&seconds)
		if seconds != nil && *seconds < s.cfg.Every.Seconds() {
			*wait = max(s.cfg.Every/2, time.Duration(*seconds*float64(time.Second)))
		}
		return err
	})
}

func anyDue(jobs []*due) bool {
	for _, j := range jobs {
		if !latest(&j.next, j.wait).After(j.now) {
			return true
		}
	}
	return false
}

// lock reads jobs that are due, with their settings and schedules.
func (s *Scheduler) lock(ctx context.Context, t *queue.Tx) (jobs []*due, err error) {
	t.Batch.Queue(sqlDue, s.cfg.Batch).Query(func(rows pgx.Rows) (err error) {
		jobs, err = pgx.CollectRows(rows, scanDue)
		return err
	})
	if err := t.Flush(ctx); err != nil || len(jobs) == 0 {
		return nil, err
	}
	byID := make(map[uuid.UUID]*due, len(jobs))
	ids, next := make([]uuid.UUID, len(jobs)), make([]time.Time, len(jobs))
	for i, j := range jobs {
		byID[j.id], ids[i], next[i] = j, j.id, j.next
	}
	t.Batch.Queue(text("settings"), ids).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			id, of, err := scanSettings(rows)
			if err != nil {
				return err
			}
			byID[id].settings = of
		}
		return rows.Err()
	})
	t.Batch.Queue(text("versions"), ids, next).Query(func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, scanVersion)
		for _, v := range all {
			byID[v.job].versions = append(byID[v.job].versions, v)
		}
		return err
	})
	return jobs, t.Flush(ctx)
}

// decideOrWait has a job about which nothing can be decided wait (5).
func (s *Scheduler) decideOrWait(j *due, page int) {
	err := s.decide(j, page)
	if err == nil {
		return
	}
	s.log.Error("cannot decide about a job; looking again in an hour", "job", j.id, "error", err)
	later := j.now.Add(time.Hour)
	j.forced, j.resting, j.wait = nil, nil, &later
}

// enqueue adds the items of the runs.
func (s *Scheduler) enqueue(ctx context.Context, t *queue.Tx, jobs []*due) error {
	var items []userqueue.NewItem
	var runs []*run
	for _, j := range jobs {
		for i := range j.runs {
			r := &j.runs[i]
			if r.fault != "" {
				continue
			}
			it := userqueue.NewItem{EnqueueItem: userqueue.EnqueueItem{
				Payload: r.body, Key: KeyPrefix + r.id.String(), Group: j.source.String(),
				Priority: itemPriority(j.priority),
			}, Trace: s.trace(j, r)}
			if r.at.After(j.now) {
				at := instant.New(r.at)
				it.RunAt = &at
			}
			items, runs = append(items, it), append(runs, r)
		}
	}
	if len(items) == 0 {
		return nil
	}
	added, err := s.queues.AddIn(ctx, t, Queue, items)
	for i := range added {
		runs[i].item = &added[i].ID
	}
	return err
}

// cancelOthers cancels the runs that were under way, of jobs whose policy says so.
func cancelOthers(ctx context.Context, t *queue.Tx, jobs []*due) error {
	var ids []uuid.UUID
	for _, j := range jobs {
		if j.cancels {
			ids = append(ids, j.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var commands []queue.Command
	t.Batch.Queue(text("others"), ids).Query(func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			commands = append(commands, queue.Command{
				ID: id, Worker: "scheduler",
				Error: "the next run of the job has taken its place",
			})
			return nil
		})
		return err
	})
	if err := t.Flush(ctx); err != nil {
		return err
	}
	_, err := cancel(ctx, t, commands, "")
	return err
}

// crawlQueue is the queue of runs.
func crawlQueue(ctx context.Context, t *queue.Tx) (id queue.ID, err error) {
	t.Batch.Queue("SELECT stage FROM millrace.stage WHERE name = $1", Queue).QueryRow(func(r pgx.Row) error {
		return r.Scan(&id)
	})
	err = t.Flush(ctx)
	return id, err
}

// cancel cancels the items of runs that meet a condition.
func cancel(ctx context.Context, t *queue.Tx, commands []queue.Command, condition string) ([]queue.Result, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	crawl, err := crawlQueue(ctx, t)
	if err != nil {
		return nil, err
	}
	w, err := t.Work(crawl, item.Cancel)
	if err != nil {
		return nil, err
	}
	items := make([]int64, len(commands))
	for i, c := range commands {
		items[i] = c.ID
	}
	if _, err := w.Lock(ctx, "t.id = ANY ($1::bigint[])"+condition, items); err != nil {
		return nil, err
	}
	return w.Apply(ctx, commands)
}

// write queues what has been decided.
func write(t *queue.Tx, jobs []*due) {
	writeRuns(t, jobs)
	writeLedger(t, jobs)
	n := len(jobs)
	ids, next, running, failures := make([]uuid.UUID, n), make([]time.Time, n), make([]int16, n), make([]int32, n)
	wait, catch, forced, buffered := make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n),
		make([]*time.Time, n)
	wake, resting := make([]*time.Time, n), make([]*time.Time, n)
	skip, asked := make([]bool, n), make([]bool, n)
	for i, j := range jobs {
		ids[i], next[i], running[i], failures[i] = j.id, j.next, int16(j.running), int32(j.failures)
		wait[i], catch[i], forced[i], wake[i], skip[i] = j.wait, j.catch, j.forced, j.wake, j.skipNext
		buffered[i], asked[i], resting[i] = j.buffered, j.bufferedForced, j.resting
	}
	t.Batch.Queue(text("jobs"), ids, next, wait, catch, forced, buffered, asked, resting, wake, skip, running, failures)
}

func writeRuns(t *queue.Tx, jobs []*due) {
	var ids, ofJobs, sources []uuid.UUID
	var dues []time.Time
	var forced []bool
	var items []*int64
	var faults []*string
	for _, j := range jobs {
		for _, r := range j.runs {
			ids, ofJobs, sources = append(ids, r.id), append(ofJobs, j.id), append(sources, j.source)
			dues, forced, items = append(dues, r.due), append(forced, r.forced), append(items, r.item)
			var fault *string
			if r.fault != "" {
				fault = &r.fault
			}
			faults = append(faults, fault)
		}
	}
	if len(ids) > 0 {
		t.Batch.Queue(text("executions"), ids, ofJobs, sources, dues, forced, items, faults)
	}
}

func writeLedger(t *queue.Tx, jobs []*due) {
	for _, of := range []struct {
		statement string
		rows      func(*due) []row
	}{{"ledger", func(j *due) []row { return j.ledger }}, {"settle", func(j *due) []row { return j.settled }}} {
		var ids []uuid.UUID
		var dues []time.Time
		var outcomes, reasons []string
		var forced []bool
		var runs []*uuid.UUID
		for _, j := range jobs {
			for _, r := range of.rows(j) {
				ids, dues, outcomes = append(ids, j.id), append(dues, r.Due), append(outcomes, r.Outcome)
				forced, runs, reasons = append(forced, r.forced), append(runs, r.run), append(reasons, r.Reason)
			}
		}
		switch {
		case len(ids) == 0:
		case of.statement == "settle":
			t.Batch.Queue(text(of.statement), ids, dues, outcomes, runs, reasons)
		default:
			t.Batch.Queue(text(of.statement), ids, dues, outcomes, forced, runs, reasons)
		}
	}
}

func (s *Scheduler) count(jobs []*due) {
	announce := false
	for _, j := range jobs {
		for _, r := range j.ledger {
			s.metrics.outcomes.WithLabelValues(r.Outcome).Inc()
			if r.Outcome == schedule.Ran && !r.forced {
				s.metrics.lateness.Observe(j.now.Sub(r.Due).Seconds())
			}
		}
		s.metrics.dispatched.Add(float64(len(j.runs)))
		announce = announce || len(j.runs) > 0
	}
	if announce {
		s.queues.Queues().Announce()
	}
}
