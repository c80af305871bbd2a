package clickhouse_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

var (
	engine embeddedtest.ClickHouse
	update = flag.Bool("update", false, "write the golden files")
)

func TestMain(m *testing.M) { flag.Parse(); os.Exit(engine.Main(m)) }

var cluster = schema.Topology{Cluster: "main"}

// TestRenderedForCluster holds what runs on a cluster against golden files,
// and has the engine parse every statement of them. No cluster is here to run
// them on.
func TestRenderedForCluster(t *testing.T) {
	rendered, err := schema.Rendered(cluster)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := driver.Open(engine.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	names, err := fs.Glob(rendered, "*.sql")
	if err != nil || len(names) < 4 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(rendered, name)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, text)
		for _, statement := range statements(string(text)) {
			rows, err := conn.Query(t.Context(), "EXPLAIN AST "+statement)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, statement)
				continue
			}
			_ = rows.Close()
			if strings.HasPrefix(statement, "INSERT") {
				continue
			}
			if !strings.Contains(statement, " ON CLUSTER `main`") {
				t.Errorf("%s: not for every server:\n%s", name, statement)
			}
		}
	}
}

func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	path := filepath.Join("testdata", "cluster", name)
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test ./schemas/clickhouse -update writes it", err)
	}
	if string(want) != string(text) {
		t.Errorf("%s is rendered differently; go test ./schemas/clickhouse -update writes it anew:\n%s", name, text)
	}
}

// statements splits a migration as goose does without its annotations.
func statements(text string) (all []string) {
	var current []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "--") {
			continue
		}
		current = append(current, line)
		if strings.HasSuffix(strings.TrimSpace(line), ";") {
			all = append(all, strings.TrimSuffix(strings.TrimSpace(strings.Join(current, "")), ";"))
			current = nil
		}
	}
	return all
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{
			"columns are added on both", "ALTER TABLE events ADD COLUMN x UInt8;",
			"ALTER TABLE events_local ON CLUSTER `main` ADD COLUMN x UInt8;\n\nALTER TABLE events ON CLUSTER `main` " +
				"ADD COLUMN x UInt8;\n",
		},
		{
			"an index is of the rows", "ALTER TABLE events ADD INDEX i x TYPE minmax;",
			"ALTER TABLE events_local ON CLUSTER `main` ADD INDEX i x TYPE minmax;\n",
		},
		{
			"rows that replace one another meet", "CREATE TABLE t\n(\n    a UInt8\n)\nENGINE = " +
				"ReplacingMergeTree(a)\nORDER BY (a, b);",
			"CREATE TABLE IF NOT EXISTS t_local ON CLUSTER `main`\n(\n    a UInt8\n)\nENGINE = " +
				"ReplicatedReplacingMergeTree(a)\nORDER BY (a, b);\n\n" +
				"CREATE TABLE IF NOT EXISTS t ON CLUSTER `main` AS t_local\nENGINE = Distributed('main', " +
				"currentDatabase(), 't_local', cityHash64(a, b));\n",
		},
		{
			"each shard joins its own rows", "-- +shards join\nCREATE OR REPLACE VIEW v\n(\n    a UInt8\n)\nAS SELECT x.a FROM t AS x " +
				"GLOBAL LEFT JOIN u AS y ON x.a = y.a;",
			"-- +shards join\nCREATE OR REPLACE VIEW v_local ON CLUSTER `main`\n(\n    a UInt8\n)\nAS SELECT x.a FROM t_local AS x " +
				"LEFT JOIN u_local AS y ON x.a = y.a;\n\nCREATE OR REPLACE TABLE v ON CLUSTER `main` AS v_local\n" +
				"ENGINE = Distributed('main', currentDatabase(), 'v_local');\n",
		},
		{"no view to join", "-- +shards join\nDROP VIEW v;", ""},
		{"no key to spread by", "CREATE TABLE t\n(\n    a UInt8\n)\nENGINE = MergeTree\nORDER BY (a);", ""},
		{"unknown", "CREATE DICTIONARY d;", ""},
		{"no end", "DROP TABLE t", ""},
	} {
		got, err := schema.RenderFile(cluster, c.in)
		if got != c.want || (err == nil) == (c.want == "") {
			t.Errorf("%s: %v\n%s", c.name, err, got)
		}
	}
}

// TestCheck holds that a migrated database is what this release needs, and an
// empty one is not.
func TestCheck(t *testing.T) {
	db := driver.OpenDB(engine.Database(t))
	defer db.Close()
	if err := engine.Topology().Check(t.Context(), db); err != nil {
		t.Error(err)
	}
	if _, err := db.ExecContext(t.Context(),
		"ALTER TABLE goose_db_version DELETE WHERE version_id = 5 SETTINGS mutations_sync = 2"); err != nil {
		t.Fatal(err)
	}
	if err := engine.Topology().Check(t.Context(), db); err == nil {
		t.Error("a database without the last migration is taken")
	}
}

// TestMigratedAgain: a server that was killed in the middle of a migration, or
// has made its tables and lost the record of it, is brought up to date as any.
func TestMigratedAgain(t *testing.T) {
	db := driver.OpenDB(engine.Database(t))
	defer db.Close()
	for _, lost := range [][]string{
		{"DROP VIEW monthly_totals", "ALTER TABLE goose_db_version DELETE WHERE version_id = 5 SETTINGS " +
			"mutations_sync = 2"},
		{"DROP TABLE events_monthly", "ALTER TABLE goose_db_version DELETE WHERE version_id = 5 SETTINGS " +
			"mutations_sync = 2"},
		{"TRUNCATE TABLE goose_db_version"},
		{"DROP TABLE goose_db_version"},
	} {
		for _, statement := range lost {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if err := engine.Topology().Migrate(t.Context(), db); err != nil {
			t.Errorf("after %s: %v", lost, err)
		}
		if err := engine.Topology().Check(t.Context(), db); err != nil {
			t.Errorf("after %s: %v", lost, err)
		}
		if _, err := db.ExecContext(t.Context(), "SELECT * FROM monthly_totals"); err != nil {
			t.Errorf("after %s: %v", lost, err)
		}
	}
}

// TestMigratedTogether: processes that start at the same time each bring the tables up to date.
func TestMigratedTogether(t *testing.T) {
	options := engine.Database(t)
	one := driver.OpenDB(options)
	defer one.Close()
	for _, table := range []string{
		"post_analytics", "monthly_totals", "journeys", "item_analyses", "events_monthly", "goose_db_version",
	} {
		if _, err := one.ExecContext(t.Context(), "DROP TABLE "+table); err != nil {
			t.Fatal(err)
		}
	}
	var all errgroup.Group
	for range 4 {
		all.Go(func() error {
			db := driver.OpenDB(options)
			defer db.Close()
			return engine.Topology().Migrate(t.Context(), db)
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	if err := engine.Topology().Check(t.Context(), one); err != nil {
		t.Error(err)
	}
	if _, err := one.ExecContext(t.Context(), "SELECT * FROM post_analytics"); err != nil {
		t.Error(err)
	}
}
