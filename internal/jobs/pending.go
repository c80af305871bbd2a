package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
)

// pendingAtOnce is how many settings one transaction hands to jobs.
const pendingAtOnce = 500

// pending are settings that a list of sources has given for the job of a source.
type pending struct {
	job.Overrides
	text json.RawMessage // nil: there are none
}

// pending reads the settings that lists of sources have given for jobs that are to be made.
func (c *change) pending(ctx context.Context, ofSources []uuid.UUID) (map[uuid.UUID]pending, error) {
	if len(ofSources) == 0 {
		return nil, nil
	}
	rows, _ := c.Query(ctx,
		"SELECT source_id, settings FROM millrace.pending_override WHERE source_id = ANY ($1)", ofSources)
	all := map[uuid.UUID]pending{}
	_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var id uuid.UUID
		var p pending
		err := row.Scan(&id, &p.text)
		if d := job.ReadDraft(p.text); len(d.Broken()) == 0 {
			p.Overrides = d.Over(p.Overrides)
		}
		all[id] = p
		return struct{}{}, err
	})
	return all, err
}

// make makes the job of a source, with the settings that wait for it. Others that a list has
// given meanwhile stay for Settle.
func (c *change) make(s *state, origin string, given map[uuid.UUID]pending) (*record, error) {
	p := given[s.id]
	if p.text != nil {
		c.batch.Queue("DELETE FROM millrace.pending_override WHERE source_id = $1 AND settings = $2::jsonb", s.id,
			string(p.text))
	}
	return newJob(s, origin, p.Overrides, c)
}

// takePending removes settings that wait for their jobs, and returns them by the sources.
func (c *change) takePending(ctx context.Context, where string, args ...any) (map[uuid.UUID]*job.Draft, error) {
	rows, err := c.Query(ctx, "DELETE FROM millrace.pending_override WHERE "+where+" RETURNING source_id, settings", args...)
	if err != nil {
		return nil, err
	}
	all := map[uuid.UUID]*job.Draft{}
	var id uuid.UUID
	var settings json.RawMessage
	_, err = pgx.ForEachRow(rows, []any{&id, &settings}, func() error {
		all[id] = job.ReadDraft(settings)
		return nil
	})
	return all, err
}

// Settle hands to jobs the settings that lists of sources have given them, and returns how many
// jobs these are. Sources that have no job yet keep theirs until there is one.
func (s *Store) Settle(ctx context.Context) (n int, err error) {
	for after, more := uuid.Nil, true; more; {
		some, err := s.settle(ctx, after)
		if err != nil {
			return n, err
		}
		n += len(some)
		if more = len(some) == pendingAtOnce; more { // behind them: sources without jobs are not looked at again
			after = slices.MaxFunc(some, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
		}
	}
	return n, nil
}

// settle does so with some sources behind one, and returns these.
func (s *Store) settle(ctx context.Context, after uuid.UUID) (ids []uuid.UUID, err error) {
	err = s.transact(ctx, "set what lists of sources say of jobs", func(c *change) error {
		ids = nil
		drafts, err := c.takePending(ctx, `source_id = ANY (ARRAY(
			SELECT p.source_id FROM millrace.pending_override AS p JOIN millrace.job_settings AS j USING (source_id)
			WHERE p.source_id > $1 ORDER BY p.source_id LIMIT $2 FOR UPDATE OF p SKIP LOCKED))`, after, pendingAtOnce)
		if err != nil || len(drafts) == 0 {
			return err
		}
		for id := range drafts {
			ids = append(ids, id)
		}
		all, err := c.lockJobs(ctx, "source_id", ids)
		if err != nil {
			return err
		}
		for _, r := range all {
			d := drafts[r.SourceID]
			if len(d.Broken()) > 0 { // by rules that are stricter since
				continue
			}
			if err := c.override(ctx, r, d); err != nil {
				return fmt.Errorf("the job %s: %w", r.ID, err)
			}
			c.save(r)
		}
		return nil
	})
	return ids, err
}
