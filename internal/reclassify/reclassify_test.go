package reclassify

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/batches"
)

var (
	postgresTables   embeddedtest.Postgres
	clickhouseTables embeddedtest.ClickHouse
)

func TestMain(m *testing.M) { os.Exit(embeddedtest.Main(m, &postgresTables, &clickhouseTables)) }

// installation has batches that were stored by other rules.
type installation struct {
	*testing.T
	pool  *pgxpool.Pool
	conn  driver.Conn
	store *Store
}

func install(t *testing.T) *installation {
	t.Helper()
	s := &installation{T: t, pool: postgresTables.Pool(t)}
	var err error
	if s.conn, err = clickhouse.Open(clickhouseTables.Database(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.conn.Close() })
	if s.store, err = New(Deps{Postgres: s.pool, ClickHouse: s.conn}); err != nil {
		t.Fatal(err)
	}
	return s
}

// batch stores a batch of one success and one error, which is tried again.
func (s *installation) batch(job, project, code, category string) {
	s.Helper()
	s.postgres(`INSERT INTO millrace.batch (job_id, batch_index, project_id, format, content_count, ok, error, retrying, errors,
		content_hash, announced_at, read_at, changed_at, seq)
		VALUES ($1, 0, nullif($2, ''), 'inline', 2, 1, 0, 1, jsonb_build_object($3::text, 1), '\x01', now(), now(), now(), 1)`,
		job, project, code)
	s.postgres(`INSERT INTO millrace.batch_error (job_id, batch_index, position, project_id, content_id, read_at, state, category,
		code, print, queue, due_at, task)
		VALUES ($1, 0, 1, $2, 'b', now(), 'waiting', $4, $3, 7, 'recrawl-network', now(),
		json_build_object('job_id', $1::text, 'project_id', $2::text, 'error_category', $4::text)::text)`,
		job, project, code, category)
	read := time.Now().UTC()
	for position, status := range []string{"success", "error"} {
		itemCode, itemCategory := "", ""
		if status == "error" {
			itemCode, itemCategory = code, category
			s.clickhouse(`INSERT INTO item_errors (job_id, batch_index, position, version, project_id, content_id, error_code,
				error_category, read_at, created_at, seq, removed)`, job, uint32(0), uint32(position), uint64(0), project,
				job, itemCode, itemCategory, read, read, uint64(1), uint8(0))
		}
		s.clickhouse(`INSERT INTO item_outcomes (job_id, batch_index, position, version, project_id, content_id, fetch_status,
			error_code, error_category, content, read_at, created_at, seq)`, job, uint32(0), uint32(position), uint64(0),
			project, job, status, itemCode, itemCategory, "{}", read, read, uint64(1))
	}
}

func (s *installation) postgres(sql string, args ...any) {
	s.Helper()
	if _, err := s.pool.Exec(s.Context(), sql, args...); err != nil {
		s.Fatal(err)
	}
}

func (s *installation) clickhouse(insert string, row ...any) {
	s.Helper()
	b, err := s.conn.PrepareBatch(s.Context(), insert)
	if err == nil {
		if err = b.Append(row...); err == nil {
			err = b.Send()
		}
	}
	if err != nil {
		s.Fatal(err)
	}
}

// shows is what is stored of a job, in all places.
func (s *installation) shows(job string) (all []string) {
	s.Helper()
	rows, err := s.pool.Query(s.Context(), `SELECT concat_ws(' ', 'batch', coalesce(project_id, '-'), ok, error, retrying, errors)
		FROM millrace.batch WHERE job_id = $1 UNION ALL
		SELECT concat_ws(' ', 'error', project_id, category, state, version, queue, coalesce(task::jsonb->>'project_id', '-'),
			task::jsonb->>'error_category') FROM millrace.batch_error WHERE job_id = $1`, job)
	if err == nil {
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		s.Fatal(err)
	}
	for _, place := range [][2]string{
		{"analytics", `SELECT concat(ifNull(project_id, '-'), ' ', error_category) FROM post_analytics WHERE job_id = ? ORDER BY position`},
		{"errors", `SELECT concat(ifNull(project_id, '-'), ' ', error_category) FROM crawl_errors WHERE job_id = ?`},
		{"lookup", `SELECT concat(toString(project_id), ' ', toString(error_category)) FROM item_outcomes WHERE content_id = ?
			ORDER BY position`},
	} {
		var found []string
		rows, err := s.conn.Query(s.Context(), place[1], job)
		if err != nil {
			s.Fatal(err)
		}
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				s.Fatal(err)
			}
			found = append(found, strings.TrimSpace(text))
		}
		if err := rows.Close(); err != nil {
			s.Fatal(err)
		}
		all = append(all, place[0]+" "+strings.Join(found, ", "))
	}
	return all
}

func (s *installation) run(ctx context.Context, dry bool) Found {
	s.Helper()
	found, err := s.store.Run(ctx, dry)
	if err != nil {
		s.Fatal(err)
	}
	return found
}

// TestReclassify: what is stored follows the present rules in every place, and nothing else
// changes (invariant 1). A dry run changes nothing, and a second run finds nothing.
func TestReclassify(t *testing.T) {
	s := install(t)
	s.batch("p-brand-0", "wrong", "DNS_ERROR", "generic")
	s.batch("q-brand-0", "q", "DNS_ERROR", "network")
	s.batch("it's \\ ? @of-0", "x", "MADE UP", "content") // names no project
	was := s.shows("p-brand-0")
	want := Found{
		Projects: []Change{
			{"it's \\ ? @of-0", "x", "", 2}, {"p-brand-0", "wrong", "p", 2},
		},
		Categories: []Change{{"DNS_ERROR", "generic", "network", 1}, {"MADE UP", "content", "generic", 1}},
	}
	if got := s.run(t.Context(), true); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v\nwant  %+v", got, want)
	}
	if now := s.shows("p-brand-0"); !reflect.DeepEqual(now, was) {
		t.Errorf("a dry run has changed %q to %q", was, now)
	}
	if got := s.run(t.Context(), false); !reflect.DeepEqual(got, want) {
		t.Errorf("found %+v\nwant  %+v", got, want)
	}
	for job, want := range map[string][]string{
		"p-brand-0": {
			`batch p 1 0 1 {"DNS_ERROR": 1}`, "error p network waiting 0 recrawl-network p network", "analytics p, p network",
			"errors p network", "lookup p, p network",
		},
		"q-brand-0": {
			`batch q 1 0 1 {"DNS_ERROR": 1}`, "error q network waiting 0 recrawl-network q network", "analytics q, q network",
			"errors q network", "lookup q, q network",
		},
		"it's \\ ? @of-0": {
			`batch - 1 0 1 {"MADE UP": 1}`, "error  generic waiting 0 recrawl-network - generic", "analytics -, - generic",
			"errors - generic", "lookup , generic",
		},
	} {
		if got := s.shows(job); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q\nwant %q", job, got, want)
		}
	}
	if got := s.run(t.Context(), false); len(got.Projects)+len(got.Categories) > 0 {
		t.Errorf("a second run finds %+v", got)
	}
}

// TestInterrupted: what is changed in some places alone is found and completed (invariant 2).
func TestInterrupted(t *testing.T) {
	slowtest.Mark(t)
	s := install(t)
	for n := range 5 {
		s.batch(fmt.Sprintf("p%d-brand-0", n), "", "TIMEOUT", "network")
	}
	s.store.category = func(string) batches.Category { return batches.Media } // rules that are to come
	s.postgres("UPDATE millrace.batch SET project_id = 'p0' WHERE job_id = 'p0-brand-0'")
	s.postgres("UPDATE millrace.batch_error SET project_id = 'p1', category = 'media' WHERE job_id = 'p1-brand-0'")
	if got := s.run(t.Context(), false); len(got.Projects) != 5 || len(got.Categories) != 1 || got.Categories[0].Rows != 5 {
		t.Errorf("found %+v", got)
	}
	for n := range 5 {
		p := fmt.Sprint("p", n)
		want := []string{
			"batch " + p + ` 1 0 1 {"TIMEOUT": 1}`, "error " + p + " media waiting 0 recrawl-network " + p + " media",
			"analytics " + p + ", " + p + " media", "errors " + p + " media", "lookup " + p + ", " + p + " media",
		}
		if n == 1 { // somebody has changed the columns alone, and the payload follows them no more
			want[1] = "error p1 media waiting 0 recrawl-network  network"
		}
		if got := s.shows(p + "-brand-0"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q\nwant %q", got, want)
		}
	}
	if got := s.run(t.Context(), true); len(got.Projects)+len(got.Categories) > 0 {
		t.Errorf("a second run finds %+v", got)
	}
}
