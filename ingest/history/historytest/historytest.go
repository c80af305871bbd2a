// Package historytest makes the tables of package history for tests, and
// fills them.
package historytest

import (
	"context"
	_ "embed"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// DDL makes the three tables, with the columns that the services' own have.
//
//go:embed tables.sql
var DDL string

// Create makes the tables in a test's database.
func Create(t testing.TB, pool *pgxpool.Pool) { Exec(t, pool, DDL) }

// Exec runs statements.
func Exec(t testing.TB, pool *pgxpool.Pool, query string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// Fill adds rows from a time on, a second apart: so many executions (of 5 to 9
// crawled items each, of which all but one were indexed), classifications and
// publications.
func Fill(t testing.TB, pool *pgxpool.Pool, from string, executions, classifications, publications int) {
	t.Helper()
	for _, f := range []struct {
		query string
		n     int
	}{
		{`INSERT INTO job_executions (job_id, source_name, status, started_at, completed_at, items_crawled,
			items_indexed)
			SELECT gen_random_uuid(), 'source_' || n % 3, 'completed', at, at + interval '1 s', 5 + n % 5,
			4 + n % 5`, executions},
		{`INSERT INTO classification_history (content_url, source_name, quality_score, topics, model_version,
			classified_at)
			SELECT 'https://example.com/article-' || n, 'source_' || n % 3, n % 100, ARRAY['news', 'topic ' || n % 7],
			'v2.' || n % 2, at`, classifications},
		{`INSERT INTO publish_history (article_url, channel_name, published_at)
			SELECT 'https://example.com/article-' || n, 'articles:topic ' || n % 7, at`, publications},
	} {
		Exec(t, pool,
			fmt.Sprintf(
				`%s FROM generate_series(1, %d) n, LATERAL (SELECT '%s'::timestamptz + n * interval '1 s' AS at) a`,
				f.query, f.n, from,
			))
	}
}
