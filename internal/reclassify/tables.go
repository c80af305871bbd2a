package reclassify

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// kind is a value that is derived from another one.
type kind struct {
	column string
	tables []table
}

// table is one that has a kind. Either its statements are those of Postgres, or it is a table of ClickHouse.
type table struct {
	name string
	// find selects what the value is derived from, the value, and the number of rows.
	find string
	// change gives rows whose texts are in $1 the values at the same places of $2, if they have
	// others; empty for a table of ClickHouse.
	change string
	// Columns of a table of ClickHouse, and which of its rows have the value.
	from, column, where string
}

var jobs = kind{"project_id", []table{
	{
		name: "batch",
		find: "SELECT job_id, coalesce(project_id, ''), count(*) FROM millrace.batch GROUP BY 1, 2",
		change: `WITH chosen AS (
				SELECT b.job_id, b.batch_index, nullif(u.project, '') AS project
				FROM millrace.batch AS b JOIN unnest($1::text[], $2::text[]) AS u (job, project) ON b.job_id = u.job
				WHERE b.project_id IS DISTINCT FROM nullif(u.project, '')
				ORDER BY b.job_id, b.batch_index FOR NO KEY UPDATE OF b
			)
			UPDATE millrace.batch AS b SET project_id = c.project, changed_at = now() FROM chosen AS c
			WHERE b.job_id = c.job_id AND b.batch_index = c.batch_index`,
	},
	ofErrors("job_id", "project_id", `CASE WHEN c.value = '' THEN (e.task::jsonb - 'project_id')::text
		ELSE (e.task::jsonb || jsonb_build_object('project_id', c.value))::text END`),
	ofClickHouse("item_outcomes", "job_id", "project_id", "1"),
	ofClickHouse("item_errors", "job_id", "project_id", "1"),
}}

var codes = kind{"error_category", []table{
	ofErrors("code", "category", "(e.task::jsonb || jsonb_build_object('error_category', c.value))::text"),
	ofClickHouse("item_outcomes", "error_code", "error_category", isError),
	ofClickHouse("item_errors", "error_code", "error_category", isError),
}}

// isError selects rows of items that are errors: others have neither a code nor a category.
const isError = "error_category != ''"

// ofErrors is the table of errors that are tried again, whose tasks have the value as well.
func ofErrors(of, column, task string) table {
	return table{
		name: "batch_error",
		find: fmt.Sprintf("SELECT %s, %s, count(*) FROM millrace.batch_error GROUP BY 1, 2", of, column),
		change: fmt.Sprintf(`WITH chosen AS (
				SELECT e.id, u.value
				FROM millrace.batch_error AS e JOIN unnest($1::text[], $2::text[]) AS u (text, value) ON e.%[1]s = u.text
				WHERE e.%[2]s <> u.value
				ORDER BY e.id FOR UPDATE OF e
			)
			UPDATE millrace.batch_error AS e SET %[2]s = c.value, task = %[3]s FROM chosen AS c WHERE e.id = c.id`,
			of, column, task),
	}
}

func ofClickHouse(name, from, column, where string) table {
	return table{
		name: name, from: from, column: column, where: where,
		find: fmt.Sprintf("SELECT toString(%s), toString(%s), toInt64(count()) FROM %s WHERE %s GROUP BY 1, 2", from, column,
			name, where),
	}
}

// each calls do with every value of a table, and with how many rows have it.
func (s *Store) each(ctx context.Context, t table, do func(of, value string, rows int64)) error {
	var of, value string
	var n int64
	if t.change != "" {
		rows, err := s.deps.Postgres.Query(ctx, t.find)
		if err != nil {
			return err
		}
		_, err = pgx.ForEachRow(rows, []any{&of, &value, &n}, func() error {
			do(of, value, n)
			return nil
		})
		return err
	}
	return dbpool.EachRow(ctx, s.deps.ClickHouse, t.find, nil, func(rows driver.Rows) error {
		if err := rows.Scan(&of, &value, &n); err != nil {
			return err
		}
		do(of, value, n)
		return nil
	})
}

// maxStatement bounds a statement of ClickHouse with all its jobs, in bytes.
const maxStatement = 64 << 20

// change gives rows that are derived from texts other values.
func (s *Store) change(ctx context.Context, t table, of, to []string) error {
	if t.change != "" {
		_, err := s.deps.Postgres.Exec(ctx, t.change, of, to)
		return err
	}
	value := fmt.Sprintf("transform(toString(%s), @of, @to, '')", t.from)
	statement := fmt.Sprintf("ALTER TABLE %s%s UPDATE %s = %s WHERE %s AND %s IN @of AND %s != %s SETTINGS mutations_sync = 2",
		s.deps.Topology.Local(t.name), s.deps.Topology.OnCluster(), t.column, value, t.where, t.from, t.column, value)
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"max_query_size": maxStatement}))
	return s.deps.ClickHouse.Exec(ctx, statement, clickhouse.Named("of", of), clickhouse.Named("to", to))
}
