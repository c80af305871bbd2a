package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// Imported counts what an import has done to the sources that it names.
type Imported struct {
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
}

// importLock is an advisory lock: two imports at once would both make a source that
// neither finds.
const importLock int64 = 0x6d696c6c_696d7074

// Listed is what a list says of a source.
type Listed struct {
	*source.Draft
	Job *job.Draft // how its job runs; nil: the list does not say it
}

// Import changes the sources with the URLs of drafts, and makes those that there are
// none of, in one transaction. The drafts break no rule, and have different URLs. Of
// several sources with one URL, the oldest is changed. What the list says of their jobs
// becomes of them a moment later, or when they are made.
func (s *Store) Import(ctx context.Context, drafts []Listed) (n Imported, err error) {
	err = s.transact(ctx, fmt.Sprintf("import %d sources", len(drafts)), func(c *change) error {
		n = Imported{}
		if _, err := c.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", importLock); err != nil {
			return err
		}
		urls := make([]string, len(drafts))
		for i, d := range drafts {
			urls[i] = d.URL()
		}
		found, err := read(ctx, c, "WHERE url = ANY ($1) ORDER BY id FOR UPDATE", urls)
		if err != nil {
			return err
		}
		byURL := make(map[string]source.CrawlSource, len(found))
		for _, f := range found {
			if _, older := byURL[f.URL]; !older {
				byURL[f.URL] = f
			}
		}
		overrides, err := overridesOf(ctx, c, found)
		if err != nil {
			return err
		}
		var made []source.Fields
		var madeBy []Listed
		var edits []edit
		settings := map[uuid.UUID]*job.Draft{}
		for _, d := range drafts {
			was, ok := byURL[d.URL()]
			if !ok {
				made, madeBy = append(made, d.Over(source.New())), append(madeBy, d)
				continue
			}
			to, changes := d.Over(was.Fields), changesJob(d.Job, overrides[was.ID])
			if changes {
				settings[was.ID] = d.Job
			}
			if len(source.Changed(was.Fields, to)) == 0 && !changes {
				n.Unchanged++
			} else {
				edits = append(edits, edit{was, to})
			}
		}
		n.Created, n.Updated = len(made), len(edits)
		stored, err := c.insert(ctx, made)
		if err != nil {
			return err
		}
		for i, d := range madeBy {
			if d.Job != nil {
				settings[stored[i].ID] = d.Job
			}
		}
		if _, err = c.update(ctx, edits, source.UserRequested); err != nil {
			return err
		}
		return c.leave(ctx, settings)
	})
	return n, err
}

// changesJob tells whether a draft changes the settings that people have set for a job.
func changesJob(d *job.Draft, was job.Overrides) bool {
	if d == nil {
		return false
	}
	before, err := json.Marshal(was)
	after, err2 := json.Marshal(d.Over(was))
	return err != nil || err2 != nil || !bytes.Equal(before, after)
}

// overridesOf are the settings that people have set for the jobs of sources, with those that
// lists have left for them.
func overridesOf(ctx context.Context, from querier, of []source.CrawlSource) (map[uuid.UUID]job.Overrides, error) {
	ids := make([]uuid.UUID, len(of))
	for i, s := range of {
		ids[i] = s.ID
	}
	rows, err := from.Query(ctx, `SELECT u.id, coalesce(j.override, '{}'), p.settings FROM unnest($1::uuid[]) AS u (id)
		LEFT JOIN millrace.job_settings AS j ON j.source_id = u.id
		LEFT JOIN millrace.pending_override AS p ON p.source_id = u.id
		WHERE j.override <> '{}' OR p.settings IS NOT NULL`, ids)
	if err != nil {
		return nil, err
	}
	all := map[uuid.UUID]job.Overrides{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var id uuid.UUID
		var o job.Overrides
		var left json.RawMessage
		err := row.Scan(&id, &o, &left)
		if err == nil && left != nil {
			o = job.ReadDraft(left).Over(o)
		}
		all[id] = o
		return struct{}{}, err
	})
	return all, err
}

// leave leaves settings for jobs, which their service takes.
func (c *change) leave(ctx context.Context, settings map[uuid.UUID]*job.Draft) error {
	batch := &pgx.Batch{}
	for id, d := range settings {
		batch.Queue(`INSERT INTO millrace.pending_override AS p (source_id, settings) VALUES ($1, $2)
			ON CONFLICT (source_id) DO UPDATE SET settings = p.settings || excluded.settings`, id, d)
	}
	if batch.Len() == 0 {
		return nil
	}
	return c.SendBatch(ctx, batch).Close()
}

// Overrides are the settings that people have set for the jobs of sources, by the sources.
func (s *Store) Overrides(ctx context.Context, of []source.CrawlSource) (map[uuid.UUID]job.Overrides, error) {
	all, err := overridesOf(ctx, s.pool, of)
	if err != nil {
		return nil, fmt.Errorf("read the overrides of %d jobs: %w", len(of), err)
	}
	return all, nil
}

// OverrideNames are the names of the settings that people have set for any job.
func (s *Store) OverrideNames(ctx context.Context) ([]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT jsonb_object_keys(settings) FROM (
		SELECT override FROM millrace.job_settings UNION ALL SELECT settings FROM millrace.pending_override
	) AS u (settings)`)
	if err == nil {
		var all []string
		if all, err = pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("read which settings of jobs people have set: %w", err)
}
