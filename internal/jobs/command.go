package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// Refusal is the error of a command that does not apply to a job as it is.
type Refusal struct {
	Job    uuid.UUID
	Status string // of the job
	Rule   string // what it would have to be
}

func (e *Refusal) Error() string {
	return fmt.Sprintf("the job %s is %s: it %s", e.Job, e.Status, e.Rule)
}

// Do pauses or resumes a job, or has it run at once, and returns it as it is then. It
// returns ErrNotFound, or a Refusal.
func (s *Store) Do(ctx context.Context, operation string, id uuid.UUID) (job.Job, error) {
	return s.edit(ctx, operation, id, func(c *change, r *record) error { return r.do(operation, c.now) })
}

// Set sets what a draft says, which breaks no rule.
func (s *Store) Set(ctx context.Context, id uuid.UUID, d *job.Draft) (job.Job, error) {
	return s.edit(ctx, "override", id, func(c *change, r *record) error { return c.override(ctx, r, d) })
}

// Unset has a job follow its source in everything.
func (s *Store) Unset(ctx context.Context, id uuid.UUID) (job.Job, error) {
	return s.edit(ctx, "override", id, func(c *change, r *record) error { return c.override(ctx, r, nil) })
}

func (s *Store) edit(
	ctx context.Context, what string, id uuid.UUID, do func(*change, *record) error,
) (now job.Job, err error) {
	err = s.transact(ctx, what+" the job "+id.String(), func(c *change) error {
		all, err := c.lockJobs(ctx, "id", []uuid.UUID{id})
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return ErrNotFound
		}
		r := all[0]
		if err := refused(r, do(c, r)); err != nil {
			return err
		}
		c.save(r)
		now = r.Job
		return nil
	})
	return now, err
}

func refused(r *record, err error) error {
	if why := (*refusal)(nil); errors.As(err, &why) {
		return &Refusal{r.ID, why.status, why.rule}
	}
	return err
}

// override sets what a draft says, or, where it is nil, has the job follow its source in
// everything.
func (c *change) override(ctx context.Context, r *record, d *job.Draft) error {
	f, err := c.fields(ctx, r)
	switch {
	case err != nil:
		return err
	case d == nil:
		return r.unset(f, c.now)
	}
	return r.set(d, f, c.now)
}

// fields are those of the source of a job from which its settings follow.
func (c *change) fields(ctx context.Context, r *record) (source.Fields, error) {
	all, err := sources(ctx, c, "WHERE id = $1", r.SourceID)
	if err != nil {
		return source.Fields{}, err
	}
	if len(all) > 0 {
		return all[0].Fields, nil
	}
	f := source.Fields{RateLimit: r.RateLimit, MaxDepth: r.MaxDepth}
	rows, err := c.Query(ctx, "SELECT priority FROM millrace.source_state WHERE source_id = $1", r.SourceID)
	if err != nil {
		return f, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&f.Priority); err != nil {
			return f, err
		}
	}
	return f, rows.Err()
}

// Many names jobs by their ids, or by those of their sources.
type Many struct {
	IDs       []uuid.UUID
	OfSources bool
}

// Bulk does a command on jobs in one transaction, and returns why it does not apply to
// some of them: ErrNotFound, or a Refusal. The draft is that of an override, which breaks
// no rule.
func (s *Store) Bulk(ctx context.Context, operation string, d *job.Draft, of Many) (why map[uuid.UUID]error, err error) {
	err = s.transact(ctx, fmt.Sprintf("%s %d jobs", operation, len(of.IDs)), func(c *change) (err error) {
		why, err = c.bulk(ctx, operation, d, of)
		return err
	})
	return why, err
}

func (c *change) bulk(
	ctx context.Context, operation string, d *job.Draft, of Many,
) (why map[uuid.UUID]error, err error) {
	column, idOf := "id", func(r *record) uuid.UUID { return r.ID }
	if of.OfSources {
		column, idOf = "source_id", func(r *record) uuid.UUID { return r.SourceID }
	}
	all, err := c.lockJobs(ctx, column, of.IDs)
	if err != nil {
		return nil, err
	}
	why = map[uuid.UUID]error{}
	for _, id := range of.IDs {
		why[id] = ErrNotFound
	}
	for _, r := range all {
		delete(why, idOf(r))
		if operation == OpOverride {
			err = c.override(ctx, r, d)
		} else {
			err = r.do(operation, c.now)
		}
		err = refused(r, err)
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			why[idOf(r)] = err
			continue
		}
		if err != nil {
			return nil, err
		}
		c.save(r)
	}
	return why, nil
}
