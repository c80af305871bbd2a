package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/schedule"
)

// ErrNoJob is the error of a job that does not exist.
var ErrNoJob = errors.New("there is no such job")

// Upcoming are the next due times of a job by the schedule that it has.
type Upcoming struct {
	Paused   bool      `json:"paused" doc:"Whether the job is paused or orphaned: what is due meanwhile does not run"`
	TimeZone string    `json:"time_zone" doc:"Of the schedule; an interval has UTC" example:"Europe/Berlin"`
	Items    []NextRun `json:"items" nullable:"false" doc:"The first is the due time that waits for the end of a backoff, if there is one"`
}

// NextRun is a due time to come.
type NextRun struct {
	DueAt    time.Time `json:"due_at" doc:"With the offset of the schedule's zone then" example:"2026-03-29T03:00:00+02:00"`
	ShiftS   int       `json:"clock_shift_s" doc:"Seconds by which the clocks of the zone are set ahead between the due time before and this one; below 0: back"`
	InWindow bool      `json:"in_window" doc:"Whether it is in the crawl window"`
	// Outcome and RunAt hold as long as nobody changes the job and no run fails.
	Outcome string     `json:"outcome" enum:"ran,skipped,outside_window,backoff,paused" doc:"What becomes of it as things are now, as the ledger will have it"`
	RunAt   *time.Time `json:"run_at" doc:"When it runs: at the due time, or at the end of a backoff; null: it does not"`
}

const upcomingSQL = `SELECT s.job_id, s.from_at, s.from_at, coalesce(s.anchor_at, s.from_at),
	coalesce(s.interval_minutes, 0),
		coalesce(s.cron, ''), s.time_zone, j.next_run_at,
		j.status IN ('paused', 'orphaned'), coalesce(j.crawl_window_start, 0), coalesce(j.crawl_window_end, 0),
		j.crawl_window_days, j.crawl_window_zone, now(), j.backoff_until, j.resting_due_at, j.skip_next
	FROM millrace.jobs AS j JOIN millrace.job_schedule AS s ON s.job_id = j.id AND s.to_at IS NULL
	WHERE j.id = $1`

// Next returns the next due times of a job, n at most, from the first about which
// nothing has been decided. It returns ErrNoJob.
func Next(ctx context.Context, pool *pgxpool.Pool, job uuid.UUID, n int) (*Upcoming, error) {
	u := &Upcoming{Items: []NextRun{}}
	var w schedule.Window
	var days []int16
	var zone string
	var now time.Time
	o := outlook{Upcoming: u}
	v, err := scanVersion(pool.QueryRow(ctx, upcomingSQL, job), &u.Paused, &w.Start, &w.End, &days, &zone, &now,
		&o.backoff, &o.resting, &o.skipNext)
	if err := dbpool.Found(err, ErrNoJob, "read the schedule of the job %s", job); err != nil {
		return nil, err
	}
	for _, day := range days {
		w.Days = append(w.Days, time.Weekday(day))
	}
	if w.Zone, err = schedule.Zone(zone); err != nil {
		return nil, fmt.Errorf("the crawl window of the job %s: its zone %w", job, err)
	}
	recurring, broken := v.spec.Compile()
	if broken != nil {
		return nil, fmt.Errorf("the schedule of the job %s: %w", job, &broken[0])
	}
	if u.TimeZone = v.spec.Zone; v.spec.Cron == "" {
		u.TimeZone = "UTC"
	}
	after := now
	if v.decided.After(now) {
		after = v.decided.Add(-time.Microsecond)
	}
	o.window, o.recurring = w, recurring
	next := recurring.Next(after)
	if o.resting != nil && !u.Paused && o.backoff != nil && (next.IsZero() || next.After(*o.backoff)) {
		at := o.resting.In(location(next, after))
		o.add(schedule.Run{At: at}, true)
	}
	for _, run := range recurring.Upcoming(after, n-len(u.Items)) {
		o.add(run, false)
	}
	return u, nil
}

// location is the zone of the schedule, which its due times have.
func location(next, after time.Time) *time.Location {
	if next.IsZero() {
		return after.Location()
	}
	return next.Location()
}

// outlook says what becomes of due times as things are now, by the rules of [schedule.Decide].
type outlook struct {
	*Upcoming
	window           schedule.Window
	recurring        *schedule.Recurring
	backoff, resting *time.Time
	skipNext         bool
}

// add adds a due time. rests tells that it waits for the end of the backoff.
func (o *outlook) add(run schedule.Run, rests bool) {
	item := NextRun{
		DueAt: run.At, ShiftS: int(run.Shift / time.Second), InWindow: o.window.Open(run.At), Outcome: schedule.Ran,
	}
	at := run.At
	within := o.backoff != nil && !run.At.After(*o.backoff)
	switch {
	case o.Paused:
		item.Outcome = schedule.Paused
	case o.skipNext && !rests:
		item.Outcome, o.skipNext = schedule.Skipped, false
	case !item.InWindow && !rests:
		item.Outcome = schedule.Outside
	case within:
		at = o.backoff.In(run.At.Location())
		if next := o.recurring.Next(run.At); !rests && !next.IsZero() && !next.After(*o.backoff) || !o.window.Open(at) {
			item.Outcome = schedule.BackedOff
		}
	}
	if item.Outcome == schedule.Ran {
		item.RunAt = &at
	}
	o.Items = append(o.Items, item)
}
