package postgres_test

import (
	"testing"

	"github.com/millrace-io/millrace/schemas/postgres"
)

// TestActSubjects: bulk actions that are under way get their subjects and go on, and go down again
// but for those on what an earlier release does not know.
func TestActSubjects(t *testing.T) {
	db := migrated(t)
	p, err := postgres.Provider(db)
	if err != nil {
		t.Fatal(err)
	}
	apply := func(up bool) {
		t.Helper()
		if _, err := p.ApplyVersion(t.Context(), 133, up); err != nil {
			t.Fatal(err)
		}
	}
	exec := func(all ...string) {
		t.Helper()
		for _, sql := range all {
			if _, err := db.ExecContext(t.Context(), sql); err != nil {
				t.Fatal(sql, err)
			}
		}
	}
	apply(false)
	exec(`INSERT INTO millrace.act (matched, more, state, move, caller, filter) VALUES
			(2, false, 'running', 'retry', 'ann', '{"queue":"mail"}'),
			(2, false, 'running', 'retry', 'ann', '{"crawl_errors":{"code":"GONE"}}')`,
		"INSERT INTO millrace.act_batch SELECT id, 0, CASE id WHEN 1 THEN 10 ELSE -1 END, '{7,8}', '{1,2}' FROM millrace.act",
		"INSERT INTO millrace.act_member SELECT id, 9, CASE id WHEN 1 THEN 10 ELSE -1 END, 'skipped', 'why' FROM millrace.act")
	before := column(t, db, "SELECT string_agg(b::text || m, ' ' ORDER BY b.act_id) FROM millrace.act_batch AS b JOIN millrace.act_member AS m USING (act_id)")
	apply(true)
	got := column(t, db, `SELECT string_agg(concat_ws(' ', subject, filter, part, members, generations, member), ', ' ORDER BY id)
		FROM millrace.act JOIN millrace.act_batch ON act_id = id JOIN millrace.act_member AS m USING (act_id, part)`)
	if want := `items {"queue":"mail"} 10 {7,8} {1,2} 9, crawl_errors {"code":"GONE"} -1 {7,8} {1,2} 9`; got[0] != want {
		t.Errorf("%s, want %s", got[0], want)
	}
	exec(`INSERT INTO millrace.act (subject, matched, more, state, move, caller, filter)
		VALUES ('sources', 1, false, 'running', 'disable', 'ann', '{}')`)
	apply(false)
	got = column(t, db, "SELECT string_agg(b::text || m, ' ' ORDER BY b.act_id) FROM millrace.act_batch AS b JOIN millrace.act_member AS m USING (act_id)")
	if got[0] != before[0] {
		t.Errorf("%s, want %s", got[0], before[0])
	}
	if got := column(t, db, "SELECT count(*) || ' ' || max(filter -> 'crawl_errors' ->> 'code') FROM millrace.act"); got[0] != "2 GONE" {
		t.Error(got)
	}
	apply(true)
}
