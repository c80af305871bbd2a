package postgres_test

import (
	"testing"

	"github.com/millrace-io/millrace/schemas/postgres"
)

// TestUploadsDown: the tables of uploads go down with rows, and up again; and their counters have to add up.
func TestUploadsDown(t *testing.T) {
	db := migrated(t)
	for _, sql := range []string{
		"INSERT INTO millrace.upload_owner (subject) VALUES ('ann')",
		"INSERT INTO millrace.upload (id, owner_no, read_rows, pending, rejected) SELECT gen_random_uuid(), no, 2, 1, 1 FROM millrace.upload_owner",
		"INSERT INTO millrace.upload_row SELECT no, 1, '[1]' FROM millrace.upload",
		"INSERT INTO millrace.upload_item (job_no, row_no, owner_no, updated_at) SELECT no, 1, owner_no, now() FROM millrace.upload",
		"INSERT INTO millrace.upload_reject SELECT no, 2, 3, 'nul', 'x', '' FROM millrace.upload",
		"UPDATE millrace.upload SET pending = 0, processing = 1",
		"UPDATE millrace.upload_item SET status = 1, item_id = 7",
		"INSERT INTO millrace.upload_result SELECT no, 1, '{}', NULL FROM millrace.upload",
		"INSERT INTO millrace.upload_image SELECT no, 1, 'a.png', 'image/png', 1, 2, 3, false, 4 FROM millrace.upload",
		"UPDATE millrace.upload SET kind = 'zip'",
		"INSERT INTO millrace.upload_export (id, job_no, owner_no, format, exact) SELECT id, no, owner_no, 'csv', false FROM millrace.upload",
	} {
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatal(sql, err)
		}
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE millrace.upload SET done = done + 1"); err == nil {
		t.Error("counters need not add up")
	}
	p, err := postgres.Provider(db)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []int64{130, 121, 115} {
		if _, err := p.ApplyVersion(t.Context(), version, false); err != nil {
			t.Fatal(err)
		}
	}
	if got := column(t, db, "SELECT pending || ' ' || processing FROM millrace.upload"); got[0] != "1 0" {
		t.Error("without queues, rows that were in one have to be pending:", got)
	}
	if _, err := p.ApplyVersion(t.Context(), 114, false); err != nil {
		t.Fatal(err)
	}
	if got := column(t, db, "SELECT coalesce(to_regclass('millrace.upload')::text, 'none')"); got[0] != "none" {
		t.Error(got)
	}
	if err := postgres.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if got := column(t, db, "SELECT count(*)::text FROM millrace.upload"); got[0] != "0" {
		t.Error(got)
	}
}
