package history

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/ingest/history/historytest"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/schemas/event"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

const day = "2026-02-10T00:00:00Z"

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

var whole = Span{Until: at("2027-01-01T00:00:00Z")}

// fixture is a database with the tables.
func fixture(t *testing.T) (dsn string, exec func(query string, args ...any)) {
	t.Helper()
	pool := engine.Pool(t)
	historytest.Create(t, pool)
	return pool.Config().ConnString(), func(query string, args ...any) {
		t.Helper()
		historytest.Exec(t, pool, query, args...)
	}
}

func open(t *testing.T, dsn, table string) *Source {
	t.Helper()
	for _, tab := range Tables() {
		if tab.Name == table {
			s, err := Open(t.Context(), dsn, tab)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			return s
		}
	}
	t.Fatal("no such table")
	return nil
}

// expand reads all rows, so many at a time, and returns their events as text.
func expand(t *testing.T, s *Source, page int) (events []string, errs []error) {
	t.Helper()
	x := NewExpander(s.Table)
	var after Cursor
	for {
		rows, err := s.Read(t.Context(), whole, after, page)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			err := x.Expand(&rows[i], func(string) bool { return true }, func(e Event) bool {
				var r event.Record
				if err := event.Decode(e.Message.Data, &r); err != nil {
					t.Fatal(err)
				}
				events = append(events, fmt.Sprintf("%s %s", r.AppendMessageID(nil)[:len(r.MessageID())-65],
					e.Message.Data))
				return true
			})
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(rows) < page {
			return events, errs
		}
		after = Cursor{rows[len(rows)-1].At, rows[len(rows)-1].ID}
	}
}

func TestClassifications(t *testing.T) {
	dsn, exec := fixture(t)
	exec(`INSERT INTO classification_history (content_url, source_name, quality_score, topics, model_version,
		classified_at) VALUES
		('https://example.com/a', 'example_com', 78, '{crime,news}', 'v2.1', '2026-02-10 14:30:00.1234560'),
		('https://example.com/b', NULL, NULL, NULL, NULL, '2026-02-10 14:30:00.123456'),
		('https://example.com/a', 'example_com', 70, '{}', 'v2.2', '2026-02-10 14:30:00.123456'),
		('nothing', 's', 1, '{}', '', '2026-02-10 14:31:00'), (NULL, 's', 1, '{}', '', '2026-02-10 14:31:00'),
		('https://example.com/c', 's', 1, '{}', '', NULL), ('https://example.com/d', 's', 1, '{}', '', 'infinity'), ('https://example.com/d', 's', 1, '{}', '', '-infinity')`)
	s := open(t, dsn, "classification_history")
	want := []string{
		`classifier:classified:2dce0a4c:2026-02-10T14:30:00.123456Z ` +
			`{"article_url":"https://example.com/a","source_name":"example_com","stage":"classified",` +
			`"occurred_at":"2026-02-10T14:30:00.123456Z","service_name":"classifier",` +
			`"metadata":{"backfilled":true,"model_version":"v2.1","quality_score":78,"topics":["crime",` +
			`"news"]}}`,
		`classifier:classified:`, `"source_name":"example.com"`, `"metadata":{"backfilled":true}}`,
		`classifier:classified:2dce0a4c:2026-02-10T14:30:00.123456Z:3 `,
	}
	for _, page := range []int{1, 2, 100} {
		got, errs := expand(t, s, page)
		if len(got) != 3 || len(errs) != 2 {
			t.Fatalf("%q %v", got, errs)
		}
		if got[0] != want[0] || !strings.HasPrefix(got[1], want[1]) || !strings.Contains(got[1], want[2]) ||
			!strings.HasSuffix(got[1], want[3]) || !strings.HasPrefix(got[2], want[4]) {
			t.Errorf("pages of %d: %q", page, got)
		}
		var invalid *event.Invalid
		if !errors.As(errs[0], &invalid) || invalid.Field != "article_url" || !errors.As(errs[1], &invalid) {
			t.Error(errs)
		}
	}
	if n, err := s.Untimed(t.Context()); n != 3 || err != nil {
		t.Error(n, err)
	}
	span := Span{at("2026-02-10T15:30:00.123456+01:00"), at("2026-02-10T14:31:00Z")}
	if n, err := s.Count(t.Context(), span); n.Rows != 3 || n.Items["classified"] != 3 || err != nil {
		t.Error(n, err)
	}
	if n, err := s.Count(t.Context(), whole, span); n.Rows != 2 || err != nil {
		t.Error(n, err)
	}
}

// TestPages: pages of any size hold each row of one time once, also where ids gain
// a digit, and give rows the keys that they have in one page.
func TestPages(t *testing.T) {
	dsn, exec := fixture(t)
	exec(`INSERT INTO publish_history (article_url, channel_name, published_at)
		SELECT 'https://example.com/' || n % 7, 'news', $1 FROM generate_series(1, 120) AS n`, at(day))
	exec(`INSERT INTO classification_history (content_url, classified_at)
		SELECT 'https://example.com/' || n, $1 FROM generate_series(1, 120) AS n`, at(day))
	for _, table := range []string{"publish_history", "classification_history"} {
		s := open(t, dsn, table)
		want, errs := expand(t, s, 1000)
		if len(want) != 120*len(s.Stages) || len(errs) > 0 {
			t.Fatalf("%s: %d events, %v", table, len(want), errs)
		}
		for _, page := range []int{1, 7, 10, 11, 50, 119, 120} {
			if got, errs := expand(t, s, page); !slices.Equal(got, want) || len(errs) > 0 {
				t.Errorf("%s in pages of %d: %d events, want the %d of one page: %v", table, page, len(got), len(want),
					errs)
			}
		}
	}
}

func TestPublications(t *testing.T) {
	dsn, exec := fixture(t)
	exec(`ALTER TABLE publish_history ADD route_id uuid, ADD topics text`)
	exec(`INSERT INTO publish_history (article_url, channel_name, published_at, route_id, topics) VALUES
		('https://example.com/a', 'articles:news', $1, 'bb2d6ef5-4eb2-4e2c-9d5b-3b1b3e5d5f10', '["crime"]'), ('https://example.com/a', 'crime', $1, NULL, 'crime'),
		('https://example.com/a', 'articles:news', $1, NULL, 'news')`, at("2026-02-10T14:30:00Z"))
	got, errs := expand(t, open(t, dsn, "publish_history"), 10)
	want := []string{
		`publisher:routed:2dce0a4c:articles%3Anews@2026-02-10T14:30:00Z ` +
			`{"article_url":"https://example.com/a","source_name":"example.com","stage":"routed",` +
			`"occurred_at":"2026-02-10T14:30:00Z","service_name":"publisher","metadata":{"backfilled":true,` +
			`"channel":"articles:news","matched_topics":["crime"],` +
			`"route_id":"bb2d6ef5-4eb2-4e2c-9d5b-3b1b3e5d5f10"}}`,
		`publisher:published:2dce0a4c:articles%3Anews@2026-02-10T14:30:00Z ` +
			`{"article_url":"https://example.com/a","source_name":"example.com","stage":"published",` +
			`"occurred_at":"2026-02-10T14:30:00Z","service_name":"publisher","metadata":{"backfilled":true,` +
			`"channel":"articles:news"}}`,
		// another channel
		`publisher:routed:2dce0a4c:crime@2026-02-10T14:30:00Z `,
		`publisher:published:2dce0a4c:crime@2026-02-10T14:30:00Z `,
		// the first channel again
		`publisher:routed:2dce0a4c:2026-02-10T14:30:00Z:3 `, `publisher:published:2dce0a4c:2026-02-10T14:30:00Z:3 `,
	}
	if len(got) != len(want) || len(errs) > 0 {
		t.Fatalf("%s %v", strings.Join(got, "\n"), errs)
	}
	for i := range want {
		if strings.HasPrefix(got[i], want[i]) {
			continue
		}
		t.Errorf("%s %v", strings.Join(got, "\n"), errs)
	}
}

func TestExecutions(t *testing.T) {
	dsn, exec := fixture(t)
	exec(`INSERT INTO job_executions (id, job_id, status, source_name, started_at, items_crawled, items_indexed) VALUES
		('bb2d6ef5-4eb2-4e2c-9d5b-3b1b3e5d5f10', gen_random_uuid(), 'completed', 'example_com', $1, 3, 2), (gen_random_uuid(), gen_random_uuid(), 'failed', NULL, $1, 0, 1)`, at("2026-02-10T14:30:00Z"))
	s := open(t, dsn, "job_executions")
	got, errs := expand(t, s, 10)
	if len(got) != 6 || len(errs) > 0 {
		t.Fatalf("%q %v", got, errs)
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{
		`"article_url":"https://backfill.invalid/job_executions/bb2d6ef5-4eb2-4e2c-9d5b-3b1b3e5d5f10/3",` +
			`"source_name":"example_com","stage":"crawled","occurred_at":"2026-02-10T14:30:00Z",` +
			`"service_name":"crawler","metadata":{"backfilled":true,"counted_only":true}}`,
		`d5f10/2","source_name":"example_com","stage":"indexed"`, `/1","source_name":"unknown","stage":"indexed"`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in\n%s", want, all)
		}
	}
	if n, err := s.Count(t.Context(), whole); n.Rows != 2 || n.Items["crawled"] != 3 || n.Items["indexed"] != 3 ||
		err != nil {
		t.Error(n, err)
	}
	q := `SELECT id, started_at, items_indexed, source_name, completed_at FROM job_executions WHERE started_at >= ` +
		`'2026-02-10T00:00:00Z' AND started_at < '2026-02-11T00:00:00Z' AND items_indexed > 0`
	if got := s.Query("indexed", Span{at(day), at(day).AddDate(0, 0, 1)}); got != q {
		t.Error(got)
	}
}

func TestOpen(t *testing.T) {
	dsn, exec := fixture(t)
	exec(`ALTER TABLE publish_history DROP article_url, DROP channel_name; DROP TABLE job_executions`)
	for i, want := range []string{
		"has no table job_executions", "",
		"no column article_url or content_url or url, and none channel_name or channel",
	} {
		s, err := Open(t.Context(), dsn, Tables()[i])
		if want == "" {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.pool.Exec(t.Context(), "DELETE FROM classification_history"); err == nil ||
				!strings.Contains(err.Error(), "read-only") {
				t.Errorf("it can write: %v", err)
			}
			s.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := Open(t.Context(), "postgres://:x", Tables()[0]); err == nil {
		t.Error("a wrong DSN is taken")
	}
}
