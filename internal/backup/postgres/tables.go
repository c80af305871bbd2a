package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	schema "github.com/millrace-io/millrace/schemas/postgres"
)

// sqlTables has the tables of the schema with their columns, but for those that Postgres computes.
const sqlTables = `SELECT c.relname::text, array_agg(a.attname::text ORDER BY a.attnum)
	FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		AND a.attgenerated = ''
	WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r' AND c.relname <> $2
	GROUP BY c.relname ORDER BY c.relname`

// sqlReferences has which table refers to which.
const sqlReferences = `SELECT t.relname::text, o.relname::text
	FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = c.conrelid JOIN pg_class AS o ON o.oid = c.confrelid
	WHERE c.contype = 'f' AND c.connamespace = $1::regnamespace AND c.conrelid <> c.confrelid`

// tables lists the tables, each after those that it refers to.
func (m *Moment) tables(ctx context.Context) ([]Table, error) {
	all, err := listTables(ctx, m.tx)
	if err != nil {
		return nil, err
	}
	rows, err := m.tx.Query(ctx, sqlReferences, schema.Schema)
	if err != nil {
		return nil, fmt.Errorf("list the references of Postgres: %w", err)
	}
	needs, from, to := map[string][]string{}, "", ""
	if _, err := pgx.ForEachRow(rows, []any{&from, &to}, func() error {
		needs[from] = append(needs[from], to)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("list the references of Postgres: %w", err)
	}
	return inOrder(all, needs)
}

func listTables(ctx context.Context, tx pgx.Tx) ([]Table, error) {
	rows, _ := tx.Query(ctx, sqlTables, schema.Schema, schema.VersionTable)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (t Table, err error) {
		return t, r.Scan(&t.Name, &t.Columns)
	}, "list the tables of Postgres")
}

// inOrder puts each table behind those that it needs.
func inOrder(left []Table, needs map[string][]string) (ordered []Table, err error) {
	for len(left) > 0 {
		waits := func(t Table) bool {
			return slices.ContainsFunc(left, func(o Table) bool { return slices.Contains(needs[t.Name], o.Name) })
		}
		var later []Table
		for _, t := range left {
			if waits(t) {
				later = append(later, t)
			} else {
				ordered = append(ordered, t)
			}
		}
		if len(later) == len(left) {
			return nil, errors.New("tables of Postgres refer to each other in a circle: they cannot be restored")
		}
		left = later
	}
	return ordered, nil
}
