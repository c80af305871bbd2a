package acts_test

import (
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking/trackingtest"
)

// TestRetryErrors: errors of batches are retried by a filter or one by one, by callers with the
// scope admin, and a filter that breaks a rule says which.
func TestRetryErrors(t *testing.T) {
	s := serve(t)
	for _, sql := range []string{
		`INSERT INTO millrace.batch (job_id, batch_index, format, content_count, ok, error, errors, content_hash,
			announced_at, read_at, changed_at, seq) VALUES ('a/b-0', 1, 'inline', 3, 1, 2, '{"GONE":2}', '', now(), now(), now(), 1)`,
		`INSERT INTO millrace.batch_error (job_id, batch_index, position, project_id, content_id, read_at, state, category,
			code, print, queue, due_at, task) SELECT 'a/b-0', 1, n, '', '', now(), 'error', 'content', 'GONE', 1,
			'recrawl-generic', now(), '{}' FROM generate_series(1, 2) AS n`,
	} {
		if _, err := s.Store.Queues().Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, body, want string
		status           int
	}{
		{"/crawl-errors/retry", `{}`, "missing", 400},
		{"/crawl-errors/retry", `{"category":"nets"}`, "category_unknown", 400},
		{"/crawl-errors/retry", `{"batch_index":1}`, "job_id", 400},
		{"/crawl-errors/retry", `{"job_id":"a","codes":"A"}`, "codes", 400},
		{"/crawl-errors/retry", `{"code":"A","from":"2026-02-10T00:00:00Z","to":"2026-02-10T00:00:00Z"}`, "span_order", 400},
		{"/batches/a%2Fb-0/1/items/9/retry", ``, "position", 404},
		{"/batches/a%2Fb-0/1/items/-1/retry", ``, "position", 400},
		{"/batches/a%2Fb-0/1/items/2/retry", ``, `"begun":true`, 200},
		{"/batches/a%2Fb-0/1/items/2/retry", ``, `"begun":false`, 200},
	} {
		if status, text := s.Post(c.path, c.body); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, want %d and %s", c.path, c.body, status, text, c.status, c.want)
		}
	}
	var a recrawl.Act
	status, text := s.Post("/crawl-errors/retry", `{"job_id":"a/b-0"}`)
	if s.Into(&a, 201, status, text); a.Matched != 1 || a.Move != "retry" || a.CrawlErrors.JobID != "a/b-0" {
		t.Errorf("%s", text)
	}
	for _, path := range []string{"/crawl-errors/retry", "/batches/a%2Fb-0/1/items/1/retry"} {
		refused(s, path)
	}
}

func refused(s *trackingtest.Site, path string) {
	s.T.Helper()
	s.Login("bob", auth.Work)
	if status, text := s.Post(path, `{"code":"GONE"}`); status != 403 {
		s.T.Errorf("%s with the scope work: %d %s", path, status, text)
	}
}
