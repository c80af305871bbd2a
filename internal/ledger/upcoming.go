package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/schedule"
)

// ErrNoJob is the error of a job that does not exist.
var ErrNoJob = errors.New("there is no such job")

// Upcoming are the next due times of a job by the schedule that it has.
type Upcoming struct {
	Paused   bool      `json:"paused" doc:"Whether the job is paused: what is due meanwhile does not run"`
	TimeZone string    `json:"time_zone" doc:"Of the schedule; an interval has UTC" example:"Europe/Berlin"`
	Items    []NextRun `json:"items" nullable:"false"`
}

// NextRun is a due time to come.
type NextRun struct {
	DueAt    time.Time `json:"due_at" doc:"With the offset of the schedule's zone then" example:"2026-03-29T03:00:00+02:00"`
	ShiftS   int       `json:"clock_shift_s" doc:"Seconds by which the clocks of the zone are set ahead between the due time before and this one; below 0: back"`
	InWindow bool      `json:"in_window" doc:"Whether it is in the crawl window"`
}

const upcomingSQL = `SELECT s.job_id, s.from_at, s.from_at, coalesce(s.anchor_at, s.from_at),
	coalesce(s.interval_minutes, 0),
		coalesce(s.cron, ''), s.time_zone, j.next_run_at,
		j.status IN ('paused', 'orphaned'), coalesce(j.crawl_window_start, 0), coalesce(j.crawl_window_end, 0),
		j.crawl_window_days, j.crawl_window_zone, now()
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
	v, err := scanVersion(pool.QueryRow(ctx, upcomingSQL, job), &u.Paused, &w.Start, &w.End, &days, &zone, &now)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNoJob
	case err != nil:
		return nil, fmt.Errorf("read the schedule of the job %s: %w", job, err)
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
	for _, run := range recurring.Upcoming(after, n) {
		u.Items = append(u.Items, NextRun{
			DueAt: run.At, ShiftS: int(run.Shift / time.Second),
			InWindow: w.Open(run.At),
		})
	}
	return u, nil
}
