package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// ErrMigrated is the error of a job that is to be made by hand, when all jobs follow
// their sources.
var ErrMigrated = errors.New("jobs are not made by hand any more")

// TakenError is the error of a job that is to be made for a source which has one.
type TakenError struct{ Source, Job uuid.UUID }

func (e *TakenError) Error() string {
	return fmt.Sprintf("the source %s has the job %s", e.Source, e.Job)
}

// Migrated tells whether jobs are not made by hand any more.
func (s *Store) Migrated(ctx context.Context) (bool, error) { return migrated(ctx, s.pool, "") }

func migrated(ctx context.Context, from querier, lock string) (done bool, err error) {
	rows, err := from.Query(ctx, "SELECT migrated_at IS NOT NULL FROM millrace.job_migration "+lock)
	if err == nil {
		done, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[bool])
	}
	if err != nil {
		return false, fmt.Errorf("read whether jobs were migrated: %w", err)
	}
	return done, nil
}

// leaves tells whether sources get no jobs by themselves.
func (c *change) leaves(ctx context.Context, cfg Config) (bool, error) {
	if !cfg.Manual {
		return false, nil
	}
	done, err := migrated(ctx, c, "")
	return !done, err
}

// Make makes a job by hand, by a draft that breaks no rule. It returns ErrMigrated,
// ErrNotFound of a source that does not exist, or a TakenError.
func (s *Store) Make(ctx context.Context, d *job.Draft) (made job.Job, err error) {
	id := d.SourceID()
	err = s.transact(ctx, "make a job of the source "+id.String(), func(c *change) error {
		done, err := migrated(ctx, c, "FOR SHARE")
		if err == nil && done {
			err = ErrMigrated
		}
		if err != nil {
			return err
		}
		known, was, err := c.known(ctx, []uuid.UUID{id})
		if err != nil {
			return err
		}
		if known[id] == nil {
			return ErrNotFound
		}
		there, err := c.lockJobs(ctx, "source_id", []uuid.UUID{id})
		if err != nil {
			return err
		}
		if len(there) > 0 {
			return &TakenError{id, there[0].ID}
		}
		r, err := newManual(known[id], d, c)
		if err != nil {
			return err
		}
		c.saveState(known[id], was[id] == nil)
		c.save(r)
		made = r.Job
		return nil
	})
	return made, err
}

// known locks what is known of sources, and returns those that exist, and what was
// known of them before.
func (c *change) known(ctx context.Context, ids []uuid.UUID) (now, was map[uuid.UUID]*state, err error) {
	if was, err = c.lockStates(ctx, ids); err != nil {
		return nil, nil, err
	}
	now = map[uuid.UUID]*state{}
	for id, s := range was {
		if !s.own && !s.gone() {
			now[id] = s
		}
	}
	rows, err := sources(ctx, c, "WHERE id = ANY ($1)", ids)
	for _, row := range rows {
		now[row.ID] = foundAgain(row, was[row.ID])
	}
	return now, was, err
}

// newManual makes a job that does not follow its source in when and how it runs.
func newManual(s *state, d *job.Draft, c *change) (*record, error) {
	r, err := newJob(s, job.Manual, d.Over(job.Overrides{}), c)
	if err != nil {
		return nil, err
	}
	r.AutoManaged = false
	r.pin()
	r.Settings = r.Override.Over(r.Settings)
	return r, nil
}

// What is done to jobs that were made by hand.
const (
	MigrateJob = "migrate_job" // it follows its source from now on
	LeaveJob   = "leave_job"   // its source does not exist
)

// MigratedJob says what a migration does to a job.
type MigratedJob struct {
	Action     string    `json:"action" enum:"migrate_job,leave_job,create_job" doc:"leave_job: its source does not exist; create_job: of a source that is enabled and has none"`
	JobID      uuid.UUID `json:"job_id,omitzero" format:"uuid"`
	SourceID   uuid.UUID `json:"source_id" format:"uuid"`
	SourceName string    `json:"source_name"`
	Changes    []string  `json:"changes" nullable:"false" doc:"How its settings change" example:"interval_minutes: 7 → 30"`
}

// Migrate has all jobs that were made by hand follow their sources, and makes the jobs
// of sources that are enabled and have none. From then on no job is made by hand, and
// Config.Manual does not count. With dry, it changes nothing and says what it would do.
// One that was cut short goes on when it is called again.
func (s *Store) Migrate(ctx context.Context, dry bool) (all []MigratedJob, err error) {
	if !dry {
		_, err := s.pool.Exec(ctx, "UPDATE millrace.job_migration SET migrated_at = now() WHERE migrated_at IS NULL")
		if err != nil {
			return nil, fmt.Errorf("end the making of jobs by hand: %w", err)
		}
	}
	all, err = inPages(ctx, s, "migrate jobs", func(c *change, after uuid.UUID) ([]MigratedJob, error) {
		return c.migratePage(ctx, after, dry)
	}, func(m MigratedJob) uuid.UUID { return m.SourceID })
	if err != nil {
		return all, err
	}
	missing, err := inPages(ctx, s, "make the jobs of sources", func(c *change, after uuid.UUID) ([]Difference, error) {
		return c.missing(ctx, after, dry)
	}, sourceOf)
	for _, d := range missing {
		all = append(all, MigratedJob{
			Action: CreateJob, SourceID: d.SourceID, SourceName: d.SourceName, Changes: []string{},
		})
	}
	return all, err
}

// migratePage migrates some jobs, in the order of their sources.
func (c *change) migratePage(ctx context.Context, after uuid.UUID, dry bool) (page []MigratedJob, err error) {
	some, err := readJobs(ctx, c, `WHERE j.origin = 'manual' AND j.migrated_at IS NULL AND j.source_id > $1
		ORDER BY j.source_id LIMIT $2`, after, reconcilePage)
	if err != nil || len(some) == 0 {
		return nil, err
	}
	ids := make([]uuid.UUID, len(some))
	for i, r := range some {
		ids[i] = r.SourceID
	}
	known, _, err := c.known(ctx, ids)
	if err != nil {
		return nil, err
	}
	locked, err := c.lockJobs(ctx, "source_id", ids)
	if err != nil {
		return nil, err
	}
	now := byID(locked, func(r *record) uuid.UUID { return r.SourceID })
	for _, was := range some {
		one := MigratedJob{
			Action: LeaveJob, JobID: was.ID, SourceID: was.SourceID, SourceName: was.SourceName, Changes: []string{},
		}
		r, s := now[was.SourceID], known[was.SourceID]
		if r != nil && s != nil {
			one.Action = MigrateJob
			if one.Changes, err = r.migrate(s.Fields, c.now); err != nil {
				return nil, err
			}
			if !dry {
				c.save(r)
			}
		}
		page = append(page, one)
	}
	return page, nil
}

// migrate has a job that was made by hand follow its source in what follows from it,
// and says what changes. What else people have set stays.
func (r *record) migrate(f source.Fields, now time.Time) (changes []string, err error) {
	was, wasSchedule := r.Settings, r.Schedule
	r.touch(now)
	o := &r.Override
	o.IntervalMinutes, o.Cron, o.TimeZone, o.Priority, o.MaxConcurrent = nil, nil, nil, nil, nil
	r.AutoManaged, r.MigratedAt = true, &now
	err = r.settle(f, "migrated", now)
	changes = []string{}
	if r.Schedule != wasSchedule {
		changes = append(changes, fmt.Sprintf("cron: %s in %s → none", wasSchedule.Cron, wasSchedule.TimeZone))
	}
	for _, n := range []struct {
		name     string
		from, to int
	}{
		{"interval_minutes", was.IntervalMinutes, r.IntervalMinutes},
		{"priority", was.Priority, r.Priority},
		{"max_concurrent", was.MaxConcurrent, r.MaxConcurrent},
	} {
		if n.from != n.to {
			changes = append(changes, fmt.Sprintf("%s: %d → %d", n.name, n.from, n.to))
		}
	}
	return changes, err
}
