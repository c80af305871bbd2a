package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/migrations"
)

// Versions are the numbers of the migrations of this release, in order.
func Versions() ([]int64, error) { return migrations.Numbers(files) }

// Applied are the numbers of the migrations that a database has, in order.
func Applied(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) ([]int64, error) {
	rows, _ := db.Query(ctx,
		"SELECT DISTINCT version_id FROM "+versionTable+" WHERE is_applied AND version_id > 0 ORDER BY 1")
	all, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, fmt.Errorf("read postgres schema version: %w", err)
	}
	return all, nil
}
