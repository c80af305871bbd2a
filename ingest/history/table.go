package history

import (
	"fmt"
	"slices"
	"strings"
)

// Table is one of the tables that hold the history of a service.
type Table struct {
	Name    string
	Service string   // whose it is, and the service_name of its events
	Stages  []string // of its events, in order
	columns []column
	drafts  func(*Row) []draft // nil for a table of counts
}

// Counts tells whether the table has numbers of items in the place of items.
func (t Table) Counts() bool { return t.Name == "job_executions" }

// column is a field of a row, and where to find it.
type column struct {
	field    string   // of Row, as scan names them
	names    []string // the first that the table has is taken
	optional bool
	as       string // SQL that makes it what scan expects; %s is the column
}

// Tables returns all tables, in the order of the pipeline.
func Tables() []Table {
	return []Table{
		{
			Name: "job_executions", Service: "crawler", Stages: []string{"crawled", "indexed"},
			columns: []column{
				{"id", []string{"id", "execution_id"}, false, "%s::text"},
				{"at", []string{"started_at"}, false, "%s::timestamptz"},
				{"crawled", []string{"items_crawled"}, false, "coalesce(%s, 0)::bigint"},
				{"indexed", []string{"items_indexed"}, false, "coalesce(%s, 0)::bigint"},
				{"source", []string{"source_name", "source"}, true, "%s::text"},
				{"ended", []string{"completed_at", "finished_at", "ended_at"}, true, "%s::timestamptz"},
			},
		},
		{
			Name: "classification_history", Service: "classifier", Stages: []string{"classified"},
			drafts: classificationEvents,
			columns: []column{
				{"id", []string{"id"}, false, "%s::text"},
				{"at", []string{"classified_at"}, false, "%s::timestamptz"},
				{"url", []string{"article_url", "content_url", "url"}, false, "%s::text"},
				{"quality_score", []string{"quality_score"}, false, "to_jsonb(%s)::text"},
				{"topics", []string{"topics"}, false, "to_jsonb(%s)::text"},
				{"source", []string{"source_name", "source"}, true, "%s::text"},
				{"canonical_url", []string{"canonical_url"}, true, "%s::text"},
				{"content_type", []string{"content_type"}, true, "to_jsonb(%s)::text"},
				{"model_version", []string{"model_version"}, true, "to_jsonb(%s)::text"},
				{"confidence", []string{"confidence"}, true, "to_jsonb(%s)::text"},
				{"processing_time_ms", []string{"processing_time_ms"}, true, "to_jsonb(%s)::text"},
				{"is_reclassification", []string{"is_reclassification"}, true, "to_jsonb(%s)::text"},
				{"content_hash", []string{"content_hash"}, true, "to_jsonb(%s)::text"},
			},
		},
		{
			Name: "publish_history", Service: "publisher", Stages: []string{"routed", "published"},
			drafts: publicationEvents,
			columns: []column{
				{"id", []string{"id"}, false, "%s::text"},
				{"at", []string{"published_at"}, false, "%s::timestamptz"},
				{"url", []string{"article_url", "content_url", "url"}, false, "%s::text"},
				{"channel", []string{"channel_name", "channel"}, false, "to_jsonb(%s)::text"},
				{"source", []string{"source_name", "source"}, true, "%s::text"},
				{"canonical_url", []string{"canonical_url"}, true, "%s::text"},
				{"route_id", []string{"route_id"}, true, "to_jsonb(%s)::text"},
				{"topics", []string{"topics"}, true, "to_jsonb(%s)::text"},
			},
		},
	}
}

// resolved are the columns that a table has, in order, with their names.
type resolved struct {
	columns []column
	name    map[string]string // by field
}

// resolve finds the columns among those of the table, by name their type.
func (t Table) resolve(types map[string]string) (resolved, error) {
	r := resolved{name: map[string]string{}}
	var missing []string
	for _, c := range t.columns {
		i := slices.IndexFunc(c.names, func(n string) bool { return types[n] != "" })
		switch {
		case i >= 0:
			r.columns = append(r.columns, c)
			r.name[c.field] = c.names[i]
		case !c.optional:
			missing = append(missing, strings.Join(c.names, " or "))
		}
	}
	if len(missing) > 0 {
		return r, fmt.Errorf("table %s has no column %s", t.Name, strings.Join(missing, ", and none "))
	}
	return r, nil
}

// list is the SELECT list.
func (r resolved) list() string {
	parts := make([]string, len(r.columns))
	for i, c := range r.columns {
		parts[i] = fmt.Sprintf(c.as, r.name[c.field])
	}
	return strings.Join(parts, ", ")
}
