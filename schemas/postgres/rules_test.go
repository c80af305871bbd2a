package postgres_test

import (
	"slices"
	"testing"

	"github.com/millrace-io/millrace/schemas/postgres"
)

// own are the tables that hold nothing but what Millrace has found out or decided itself.
var own = []string{
	"act_batch", "act_member", "batch", "batch_error", "claim", "delayed", "error_domain", "executions", "failed", "finished", "history", "job_ledger",
	"job_migration", "job_schedule", "job_status", "job_stop", "key_start", "message_outbox", "outbox", "parked",
	"payload_change", "processed_events", "ready", "run_change", "schema_version", "slot", "source_state", "tally",
	"tally_delta", "upload", "upload_image", "upload_item", "upload_owner", "upload_reject", "upload_result", "upload_export", "upload_row", "upload_taken", "upload_watched", "webhook",
	"webhook_host", "work_batch",
	"work_position",
}

// TestRules: whatever constraint what people write can break, there are words for it; and
// there are none for constraints that are gone.
func TestRules(t *testing.T) {
	db := migrated(t)
	rows, err := db.QueryContext(t.Context(), `SELECT c.relname, n.conname FROM pg_constraint AS n
		JOIN pg_class AS c ON c.oid = n.conrelid
		WHERE n.connamespace = 'millrace'::regnamespace AND n.contype IN ('c', 'p', 'u', 'f', 'x')
		UNION SELECT c.relname, i.relname FROM pg_index AS x
		JOIN pg_class AS c ON c.oid = x.indrelid JOIN pg_class AS i ON i.oid = x.indexrelid
		WHERE x.indisunique AND c.relnamespace = 'millrace'::regnamespace ORDER BY 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	there := map[string]bool{}
	for rows.Next() {
		var table, constraint string
		if err := rows.Scan(&table, &constraint); err != nil {
			t.Fatal(err)
		}
		there[constraint] = true
		rule, told := postgres.Rules[constraint]
		switch {
		case slices.Contains(own, table) && !told:
		case slices.Contains(own, table):
			t.Errorf("%s of %s has a rule, and only Millrace writes there", constraint, table)
		case !told:
			t.Errorf("%s of %s has no rule in words", constraint, table)
		case rule.Field == "" || rule.Rule == "":
			t.Errorf("%s of %s: %+v", constraint, table, rule)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for constraint := range postgres.Rules {
		if !there[constraint] {
			t.Errorf("there is no constraint %s", constraint)
		}
	}
}
