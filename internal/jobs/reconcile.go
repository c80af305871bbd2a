package jobs

import (
	"context"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// Difference is a source or a job without its other part.
type Difference struct {
	Action     string    `json:"action" enum:"create_job,orphan_job"`
	SourceID   uuid.UUID `json:"source_id" format:"uuid"`
	SourceName string    `json:"source_name"`
	JobID      uuid.UUID `json:"job_id,omitzero" format:"uuid" doc:"The job that has no source"`
}

// What is done about differences.
const (
	CreateJob = "create_job" // of a source that is enabled and has none
	OrphanJob = "orphan_job" // whose source does not exist
)

// reconcilePage is how many differences one transaction mends.
const reconcilePage = 500

// Reconcile compares the table of sources with the jobs and mends the differences: it
// makes jobs of sources that are enabled and have none, and marks jobs as orphaned
// whose source was in the table and is not. With dry, it changes nothing and returns
// what it would do. Events make all of that too: whatever differs without events under
// way is one that was lost.
func (s *Store) Reconcile(ctx context.Context, dry bool) (all []Difference, err error) {
	const what = "reconcile sources and jobs"
	all, err = inPages(ctx, s, what, func(c *change, after uuid.UUID) ([]Difference, error) {
		if leaves, err := c.leaves(ctx, s.cfg); err != nil || leaves {
			return nil, err
		}
		return c.missing(ctx, after, dry)
	}, sourceOf)
	if err != nil {
		return all, err
	}
	orphans, err := inPages(ctx, s, what, func(c *change, after uuid.UUID) ([]Difference, error) {
		return c.orphans(ctx, after, dry)
	}, sourceOf)
	return append(all, orphans...), err
}

func sourceOf(d Difference) uuid.UUID { return d.SourceID }

// inPages does something in transactions, each of which goes on after the source of the
// last that the one before has returned, until one returns nothing.
func inPages[T any](
	ctx context.Context, s *Store, what string, do func(*change, uuid.UUID) ([]T, error), of func(T) uuid.UUID,
) (all []T, err error) {
	for after := uuid.Nil; ; {
		var page []T
		err = s.transact(ctx, what, func(c *change) error {
			page, err = do(c, after)
			return err
		})
		if err != nil || len(page) == 0 {
			return all, err
		}
		all = append(all, page...)
		after = of(page[len(page)-1])
	}
}

// missing makes jobs of sources without one.
func (c *change) missing(ctx context.Context, after uuid.UUID, dry bool) (page []Difference, err error) {
	rows, err := sources(ctx, c, `AS s WHERE id > $1 AND enabled
		AND NOT EXISTS (SELECT FROM millrace.job_settings AS j WHERE j.source_id = s.id) ORDER BY id
		LIMIT $2`, after, reconcilePage)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := make([]uuid.UUID, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	states, err := c.lockStates(ctx, ids)
	if err != nil {
		return nil, err
	}
	made, err := c.lockJobs(ctx, "source_id", ids) // by a consumer, meanwhile
	if err != nil {
		return nil, err
	}
	given, err := c.pending(ctx, ids)
	if err != nil {
		return nil, err
	}
	there := byID(made, func(r *record) uuid.UUID { return r.SourceID })
	for _, row := range rows {
		if there[row.ID] != nil {
			continue
		}
		page = append(page, Difference{Action: CreateJob, SourceID: row.ID, SourceName: row.Name})
		if !dry {
			if err := c.adopt(row, states[row.ID], given); err != nil {
				return nil, err
			}
		}
	}
	return page, nil
}

// adopt makes the job of a source as it is in the table.
func (c *change) adopt(row source.CrawlSource, was *state, given map[uuid.UUID]pending) error {
	now := foundAgain(row, was)
	r, err := c.make(now, job.FromReconciliation, given)
	if err != nil {
		return err
	}
	c.saveState(now, was == nil)
	c.save(r)
	return nil
}

// foundAgain is the state of a source that was found in the table; nil: nothing was
// known of it. An event has told of a deletion that did not happen if it is there: the
// source begins another life then.
func foundAgain(row source.CrawlSource, was *state) *state {
	now := found(row)
	if was == nil {
		return now
	}
	now.seqs, now.created, now.creation = was.seqs, was.created, was.creation
	now.deleted, now.last, now.lastAt = was.deleted, was.last, was.lastAt
	if was.gone() {
		now.created, now.creation = was.deleted+1, row.Fields
	}
	return now
}

// orphans marks jobs whose source was in the table and is not.
func (c *change) orphans(ctx context.Context, after uuid.UUID, dry bool) (page []Difference, err error) {
	all, err := readJobs(ctx, c, `JOIN millrace.source_state AS st ON st.source_id = j.source_id AND st.own
		WHERE j.source_id > $1 AND j.status <> 'orphaned'
			AND NOT EXISTS (SELECT FROM millrace.source AS src WHERE src.id = j.source_id)
		ORDER BY j.source_id LIMIT $2 FOR UPDATE OF j SKIP LOCKED`, after, reconcilePage)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		page = append(page, Difference{Action: OrphanJob, SourceID: r.SourceID, SourceName: r.SourceName, JobID: r.ID})
		if !dry {
			r.touch(c.now)
			r.Status, r.PausedBy, r.ForcedAt = job.Orphaned, "", nil
			r.begin("orphaned", r.anchor)
			c.save(r)
		}
	}
	return page, nil
}
