package clickhouse

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pressly/goose/v3"

	"github.com/millrace-io/millrace/schemas/migrations"
)

// VersionTable is the table of the migrations that have been applied.
const VersionTable = goose.DefaultTablename

// Versions are the numbers of the migrations of this release, in order.
func Versions() ([]int64, error) { return migrations.Numbers(files) }

// Applied are the numbers of the migrations that a database has, in order.
func Applied(ctx context.Context, db *sql.DB) (all []int64, err error) {
	rows, err := db.QueryContext(ctx, "SELECT DISTINCT version_id FROM "+VersionTable+" WHERE version_id > 0 ORDER BY version_id")
	if err != nil {
		return nil, fmt.Errorf("read clickhouse schema version: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var version int64
		if err := rows.Scan(&version); err != nil {
			return nil, fmt.Errorf("read clickhouse schema version: %w", err)
		}
		all = append(all, version)
	}
	return all, rows.Err()
}
