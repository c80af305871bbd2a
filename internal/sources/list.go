package sources

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/schemas/source"
)

// Filter selects sources. The zero value of a field selects all.
type Filter struct {
	Text     string // a part of the name or of the URL, in any case
	Enabled  *bool
	Priority string
	Job      string // the status of its job
	Health   string // of its job
}

var where = "WHERE " + condition

var condition = `($1 = '' OR strpos(lower(name), lower($1)) > 0 OR strpos(lower(url), lower($1)) > 0)
	AND ($2::boolean IS NULL OR enabled = $2) AND ($3 = '' OR priority = $3)
	AND ($4 = '' OR EXISTS (SELECT FROM millrace.jobs AS j WHERE j.source_id = source.id AND j.status = $4))
	AND ($5 = '' OR EXISTS (
		SELECT FROM millrace.jobs AS j WHERE j.source_id = source.id AND ` + jobs.HealthSQL + ` = $5))`

func (f Filter) args() []any { return []any{f.Text, f.Enabled, f.Priority, f.Job, f.Health} }

// SourceFilter is a filter as requests have it. A source passes every part that is given.
type SourceFilter struct {
	Q        string `json:"q,omitempty" query:"q" doc:"Only sources with this in their name or URL, in any case" example:"news"`
	Enabled  string `json:"enabled,omitempty" query:"enabled" enum:"true,false" doc:"Only sources that are enabled, or that are not"`
	Priority string `json:"priority,omitempty" query:"priority" enum:"low,normal,high,critical" doc:"Only sources of this priority"`
	Job      string `json:"job_status,omitempty" query:"job_status" enum:"pending,running,paused,failed,orphaned" doc:"Only sources whose job is in this status"`
	Health   string `json:"health,omitempty" query:"health" enum:"healthy,warning,failed,unknown" doc:"Only sources whose job is of this health"`
}

// Filter is what it selects.
func (f SourceFilter) Filter() Filter {
	of := Filter{Text: f.Q, Priority: f.Priority, Job: f.Job, Health: f.Health}
	if f.Enabled != "" {
		enabled := f.Enabled == "true"
		of.Enabled = &enabled
	}
	return of
}

// Check returns all rules that it breaks beyond its schema.
func (f SourceFilter) Check() []source.Invalid { return source.CheckSearch("q", f.Q) }

// List returns up to limit sources that a filter selects, of those that were made
// after another one; the oldest first.
func (s *Store) List(ctx context.Context, f Filter, after uuid.UUID, limit int) ([]source.CrawlSource, error) {
	all, err := read(ctx, s.pool, where+" AND id > $6 ORDER BY id LIMIT $7", append(f.args(), after, limit)...)
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	return all, nil
}

// Count returns how many sources a filter selects.
func (s *Store) Count(ctx context.Context, f Filter) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT count(*) FROM millrace.source "+where, f.args()...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count sources: %w", err)
	}
	return n, nil
}
