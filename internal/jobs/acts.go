package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/job"
)

// Subject is the name of jobs in records of acts.
const Subject = "jobs"

// Asked is what a request has that begins an act on jobs.
type Asked struct {
	Move   string    `json:"move" enum:"pause,resume,force-run,skip-next,unskip-next,override" doc:"What is done to each"`
	Filter JobFilter `json:"filter" doc:"As the parameters of GET /jobs; {}: all jobs"`
}

// Settings is the argument of acts that override how jobs run.
type Settings struct {
	Override json.RawMessage `json:"override"`
}

// subject has jobs be what acts are about.
type subject struct{ store *Store }

// Subject returns what acts on jobs are about.
func (s *Store) Subject() acts.Subject { return subject{s} }

func (s subject) Name() string { return Subject }

// Asked implements acts.Asking.
func (s subject) Asked() any { return Asked{} }

func (s subject) Each(ctx context.Context, o acts.Order, add func(acts.Member) error) error {
	asked, err := acts.FilterOf[JobFilter](o)
	if err != nil {
		return err
	}
	err = s.store.readWhole(ctx, func(tx pgx.Tx) error {
		return acts.EachUUID(ctx, tx, add, "SELECT j.id FROM millrace.jobs AS j "+where+" ORDER BY j.id",
			asked.Filter().args()...)
	})
	if err != nil {
		return fmt.Errorf("select jobs: %w", err)
	}
	return nil
}

// Take changes the jobs that the filter still matches.
func (s subject) Take(ctx context.Context, t *queue.Tx, a acts.Act, members []acts.Member) ([]acts.Result, error) {
	var settings *job.Draft
	if a.Move == OpOverride {
		var with Settings
		if err := json.Unmarshal(a.Arguments, &with); err != nil {
			return nil, fmt.Errorf("read the settings of jobs: %w", err)
		}
		settings = job.ReadDraft(with.Override)
	}
	asked, err := acts.FilterOf[JobFilter](a.Order)
	if err != nil {
		return nil, err
	}
	f := asked.Filter()
	ids, err := acts.UUIDs(members)
	if err != nil {
		return nil, err
	}
	tx, err := t.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var all []acts.Result
	err = within(ctx, tx, func(c *change) error {
		if err := c.hold(ctx, "id", ids); err != nil {
			return err
		}
		var matching []uuid.UUID
		matching, all, err = acts.Matching(ctx, c, ids,
			"SELECT j.id, "+condition+fmt.Sprintf(" FROM millrace.jobs AS j WHERE j.id = ANY ($%d)", len(f.args())+1),
			append(f.args(), ids)...)
		if err != nil {
			return err
		}
		why, err := c.bulk(ctx, a.Move, settings, Many{IDs: matching})
		for i, id := range ids {
			if refusal := (*Refusal)(nil); errors.As(why[id], &refusal) {
				all[i] = acts.Result{Outcome: acts.Failed, Reason: "is " + refusal.Status + ": it " + refusal.Rule}
			}
		}
		return err
	})
	return all, err
}

func (s subject) Describe(ctx context.Context, members []acts.Member) ([]json.RawMessage, error) {
	return acts.Described(ctx, s.store.pool, `SELECT u.place,
		json_strip_nulls(json_build_object('job_id', u.id, 'source_id', j.source_id, 'source_name', j.source_name))
		FROM unnest($1::text[]::uuid[], $2::smallint[]) WITH ORDINALITY AS u (id, part, place)
		LEFT JOIN millrace.jobs AS j ON j.id = u.id`, members)
}
