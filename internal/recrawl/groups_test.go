package recrawl

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// TestGroupsOfManyRows: which projects have rows that are due costs the same however many are due, also
// right after a storm, when Postgres has no statistics of the table yet.
func TestGroupsOfManyRows(t *testing.T) {
	pool := engine.Pool(t)
	_, err := pool.Exec(t.Context(), `INSERT INTO millrace.batch_error (job_id, batch_index, position, state, project_id,
			content_id, category, code, print, queue, due_at, task, read_at)
		SELECT 'job', i / 50, i % 50, 'waiting', 'project ' || i % 3, i, 'network', 'TIMEOUT', 1, 'recrawl-network',
			now() + CASE WHEN i % 3 = 0 THEN interval '1 day' ELSE interval '0' END, '{}', now()
		FROM generate_series(0, 19999) AS i`)
	if err != nil {
		t.Fatal(err)
	}
	groups := strings.ReplaceAll(text("groups"), "{queue}", "recrawl-network")
	found, err := pool.Query(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}
	projects, err := pgx.CollectRows(found, pgx.RowTo[string])
	if want := []string{"project 1", "project 2"}; err != nil || !slices.Equal(projects, want) {
		t.Errorf("projects with rows that are due are %q (%v), want %q", projects, err, want)
	}
	var text string
	if err := pool.QueryRow(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+groups).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil || len(plans) != 1 {
		t.Fatalf("the plan is %s (%v)", text, err)
	}
	if pages := plans[0].Plan.Hit + plans[0].Plan.Read; pages > 100 {
		t.Errorf("of 20,000 rows %d pages were read:\n%s", pages, text)
	}
}
