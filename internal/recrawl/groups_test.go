package recrawl

import (
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
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

// TestClockSetBack: an error whose time to be tried again was set by a clock that has been set back since does not
// wait for that. One that waits for as long as its policy says goes on to wait.
func TestClockSetBack(t *testing.T) {
	pool := engine.Pool(t, queue.Configure)
	_, err := pool.Exec(t.Context(), `INSERT INTO millrace.batch_error (job_id, batch_index, position, state, tries,
			project_id, content_id, category, code, print, queue, due_at, task, read_at)
		SELECT 'job', 0, i, 'waiting', tries, 'p', i, 'network', 'TIMEOUT', 1, 'recrawl-network',
			now() + wait * interval '1 second', '{}', now()
		FROM (VALUES (0, 0, 5), (1, 0, 60), (2, 4, 1800), (3, 4, 2000)) AS v (i, tries, wait)`)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := queue.New(queue.Config{Kinds: []queue.Kind{&userqueue.Kind{}}}, pool, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	own, err := userqueue.New(queues)
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Store{own: own}).mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := pool.Query(t.Context(), "SELECT position FROM millrace.batch_error WHERE due_at <= now() ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	due, err := pgx.CollectRows(found, pgx.RowTo[int])
	if want := []int{1, 3}; err != nil || !slices.Equal(due, want) {
		t.Errorf("due are %v (%v), want %v", due, err, want)
	}
}
