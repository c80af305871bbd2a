package jobs

import (
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/schemas/source"
)

// Filter selects jobs. The zero value of a field selects all.
type Filter struct {
	Text     string // a part of the name or of the URL of the source, in any case
	Status   string
	Health   string
	Auto     *bool
	Priority *int
	Sources  []uuid.UUID // only jobs of these
	Enabled  *bool       // only jobs of sources that are, or are not
	Rank     string      // the priority of their source
	Sourced  *bool       // only jobs whose source is in the list of sources, or is not
}

var condition = `($1 = '' OR strpos(lower(j.source_name), lower($1)) > 0 OR strpos(lower(j.url), lower($1)) > 0)
	AND ($2 = '' OR j.status = $2) AND ($3::boolean IS NULL OR j.auto_managed = $3)
	AND ($4::integer IS NULL OR j.priority = $4) AND ($5::uuid[] IS NULL OR j.source_id = ANY ($5))
	AND ($6 = '' OR ` + HealthSQL + ` = $6)
	AND ($7::boolean IS NULL AND $8 = '' OR EXISTS (SELECT FROM millrace.source AS s WHERE s.id = j.source_id
		AND ($7::boolean IS NULL OR s.enabled = $7) AND ($8 = '' OR s.priority = $8)))
	AND ($9::boolean IS NULL OR EXISTS (SELECT FROM millrace.source AS s WHERE s.id = j.source_id) = $9)`

var where = "WHERE " + condition

func (f Filter) args() []any {
	return []any{f.Text, f.Status, f.Auto, f.Priority, f.Sources, f.Health, f.Enabled, f.Rank, f.Sourced}
}

// JobFilter is a filter as requests have it. A job passes every part that is given.
type JobFilter struct {
	Q        string `json:"q,omitempty" query:"q" doc:"Only jobs of sources with this in their name or URL, in any case" example:"news"`
	SourceID string `json:"source_id,omitempty" query:"source_id" maxLength:"4000" doc:"Only jobs of these sources: up to 100 ids, between commas"`
	Status   string `json:"status,omitempty" query:"status" enum:"pending,running,paused,failed,orphaned" doc:"Only jobs in this status"`
	Health   string `json:"health,omitempty" query:"health" enum:"healthy,warning,failed,unknown" doc:"Only jobs of this health"`
	Auto     string `json:"auto_managed,omitempty" query:"auto_managed" enum:"true,false" doc:"Only jobs that follow their sources, or that do not"`
	Priority int    `json:"priority" query:"priority" minimum:"-1" maximum:"100" default:"-1" required:"false" doc:"Only jobs of this priority; -1: of any"`
	Enabled  string `json:"enabled,omitempty" query:"enabled" enum:"true,false" doc:"Only jobs of sources that are enabled, or that are not"`
	Rank     string `json:"source_priority,omitempty" query:"source_priority" enum:"low,normal,high,critical" doc:"Only jobs of sources of this priority"`
	Sourced  string `json:"has_source,omitempty" query:"has_source" enum:"true,false" doc:"Only jobs whose source is in the list of sources, or is not"`
}

// maxSources is how many sources a filter may name.
const maxSources = 100

// Check returns all rules that it breaks beyond its schema.
func (f JobFilter) Check() []source.Invalid {
	_, broken := f.sources()
	return append(broken, source.CheckSearch("q", f.Q)...)
}

func (f JobFilter) sources() (ids []uuid.UUID, broken []source.Invalid) {
	if f.SourceID == "" {
		return nil, nil
	}
	texts := strings.Split(f.SourceID, ",")
	if len(texts) > maxSources {
		rule := fmt.Sprintf("must be at most %d ids", maxSources)
		return nil, []source.Invalid{{Field: "source_id", Code: "length", Rule: rule}}
	}
	for _, text := range texts {
		id, ok := source.ParseID(text)
		if !ok {
			return nil, []source.Invalid{source.BadID("source_id")}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Filter is what it selects. It must break no rule.
func (f JobFilter) Filter() Filter {
	of := Filter{
		Text: f.Q, Status: f.Status, Health: f.Health, Rank: f.Rank, Auto: isTrue(f.Auto), Enabled: isTrue(f.Enabled),
		Sourced: isTrue(f.Sourced),
	}
	of.Sources, _ = f.sources()
	if f.Priority >= 0 {
		of.Priority = &f.Priority
	}
	return of
}

// isTrue reads a choice of two; nil: none is made.
func isTrue(text string) *bool {
	if text == "" {
		return nil
	}
	is := text == "true"
	return &is
}
