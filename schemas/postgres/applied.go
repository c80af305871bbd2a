package postgres

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// Versions are the numbers of the migrations of this release, in order.
func Versions() (all []int64, err error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		all = append(all, version)
	}
	return all, nil
}

// Applied are the numbers of the migrations that a database has, in order.
func Applied(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) ([]int64, error) {
	rows, err := db.Query(ctx, "SELECT DISTINCT version_id FROM "+versionTable+" WHERE is_applied AND version_id > 0 ORDER BY 1")
	if err != nil {
		return nil, fmt.Errorf("read postgres schema version: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("read postgres schema version: %w", err)
	}
	return all, nil
}
