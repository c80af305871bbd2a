package clickhouse

import (
	"fmt"

	"github.com/pressly/goose/v3/database/dialect"
)

// versions keeps the table of applied migrations, synced to disk as the tables
// are that they made, and on every server of a cluster, so that it does not
// matter which one is asked.
type versions struct{ topology Topology }

var _ dialect.Querier = versions{}

// all makes a replicated table have one shard whatever the cluster's have.
const all = "('/clickhouse/tables/{database}/{table}/all', '{shard}-{replica}')"

func (v versions) CreateTable(table string) string {
	engine := "MergeTree"
	if v.topology.replicated() {
		engine = "ReplicatedMergeTree" + all
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s%s (version_id Int64, is_applied UInt8, date Date DEFAULT "+
		"now(), tstamp DateTime DEFAULT now()) "+
		"ENGINE = %s ORDER BY version_id SETTINGS fsync_after_insert = 1, fsync_part_directory = 1, "+
		"min_rows_to_fsync_after_merge = 1",
		table, v.topology.OnCluster(), engine)
}

func (versions) InsertVersion(table string) string {
	return fmt.Sprintf("INSERT INTO %s (version_id, is_applied) VALUES ($1, $2)", table)
}

func (v versions) DeleteVersion(table string) string {
	return fmt.Sprintf("ALTER TABLE %s%s DELETE WHERE version_id = $1 SETTINGS mutations_sync = 2", table,
		v.topology.OnCluster())
}

func (versions) GetMigrationByVersion(table string) string {
	return fmt.Sprintf("SELECT tstamp, is_applied FROM %s WHERE version_id = $1 ORDER BY tstamp DESC LIMIT 1", table)
}

func (versions) ListMigrations(table string) string {
	return fmt.Sprintf("SELECT version_id, is_applied FROM %s ORDER BY version_id DESC", table)
}

func (versions) GetLatestVersion(table string) string {
	return fmt.Sprintf("SELECT max(version_id) FROM %s", table)
}
