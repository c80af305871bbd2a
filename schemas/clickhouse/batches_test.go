package clickhouse_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
)

// TestOutcomesThatCount: of the outcomes of an item the views show the last one, without errors
// that are older than their retention, and every column of theirs says what it is.
func TestOutcomesThatCount(t *testing.T) {
	conn, err := driver.Open(engine.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	lines := func(query string) (all []string) {
		t.Helper()
		rows, err := conn.Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			all = append(all, line)
		}
		return all
	}
	for _, statement := range []string{
		"INSERT INTO item_outcomes (job_id, batch_index, position, version, project_id, fetch_status, error_category, error_code) " +
			"VALUES ('p-b-0', 1, 0, 0, 'p', 'success', '', ''), ('p-b-0', 1, 1, 0, 'p', 'error', 'network', 'TIMEOUT'), " +
			"('p-b-0', 1, 2, 0, 'p', 'error', 'network', 'DNS_ERROR'), ('dry', 0, 0, 0, '', 'error', 'content', 'CONTENT_REMOVED')",
		"INSERT INTO item_errors (job_id, batch_index, position, version, project_id, error_category, error_code, read_at) " +
			"VALUES ('p-b-0', 1, 1, 0, 'p', 'network', 'TIMEOUT', now()), ('p-b-0', 1, 2, 0, 'p', 'network', 'DNS_ERROR', now()), " +
			"('dry', 0, 0, 0, '', 'content', 'CONTENT_REMOVED', now()), ('old', 0, 0, 0, '', 'network', 'TIMEOUT', now() - INTERVAL 2 YEAR)",
		// One item is crawled at last, another fails otherwise.
		"INSERT INTO item_outcomes (job_id, batch_index, position, version, project_id, fetch_status, error_category, error_code) " +
			"VALUES ('p-b-0', 1, 1, 2, 'p', 'success', '', ''), ('p-b-0', 1, 2, 1, 'p', 'error', 'content', 'CONTENT_REMOVED')",
		"INSERT INTO item_errors (job_id, batch_index, position, version, project_id, error_category, error_code, removed, read_at) " +
			"VALUES ('p-b-0', 1, 1, 2, 'p', '', '', 1, now()), ('p-b-0', 1, 2, 1, 'p', 'content', 'CONTENT_REMOVED', 0, now())",
		// Each outcome has its own analysis, and one that was written again counts once.
		"INSERT INTO item_analyses (job_id, batch_index, position, version, impact, language, analysed_at) VALUES " +
			"('p-b-0', 1, 0, 0, 1, 'vi', now()), ('p-b-0', 1, 1, 0, 2, 'en', now()), ('p-b-0', 1, 1, 2, 3, '', now())",
		"INSERT INTO item_analyses (job_id, batch_index, position, version, impact, language, analysed_at) VALUES " +
			"('p-b-0', 1, 0, 0, 4, 'de', now() + 1)",
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string][]string{
		"SELECT concat(job_id, ' ', toString(position), ' ', ifNull(project_id, 'none'), ' ', fetch_status, ' ', error_code, ' ', " +
			"toString(attempts)) FROM post_analytics ORDER BY job_id, position": {
			"dry 0 none error CONTENT_REMOVED 0", "p-b-0 0 p success  0", "p-b-0 1 p success  2",
			"p-b-0 2 p error CONTENT_REMOVED 1",
		},
		"SELECT concat(job_id, ' ', toString(position), ' ', ifNull(toString(impact), 'none'), ' ', language, ' ', " +
			"analysed_at IS NULL ? 'never' : 'once') FROM post_analytics ORDER BY job_id, position": {
			"dry 0 none  never", "p-b-0 0 4 de once", "p-b-0 1 3  once", "p-b-0 2 none  never",
		},
		"SELECT concat(id, ' ', ifNull(project_id, 'none'), ' ', error_code) FROM crawl_errors ORDER BY id": {
			"dry/0/0 none CONTENT_REMOVED", "p-b-0/1/2 p CONTENT_REMOVED",
		},
		"SELECT concat(table, '.', name) FROM system.columns WHERE database = currentDatabase() " +
			"AND table IN ('post_analytics', 'crawl_errors') AND comment = ''": nil,
	} {
		if got := lines(query); !slices.Equal(got, want) {
			t.Errorf("%s\ngives %q\nwant  %q", query, got, want)
		}
	}
	for _, view := range []string{"post_analytics", "crawl_errors"} {
		for _, column := range lines("SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '" + view +
			"' AND type LIKE '%String%' AND type NOT LIKE 'Array%'") {
			lines("SELECT toString(count()) FROM " + view + " WHERE " + column + " = ''")
			lines("SELECT job_id FROM " + view + " WHERE " + column + " IN ('', 'x') LIMIT 1")
		}
	}
}

// TestAnalysesMerged: outcomes and analyses are read in the order of their keys and merged, so that a statement over millions of
// them needs little memory. An engine that joins in another way, or reads a projection in place of the table, fails here. Over
// shards, each does so with its own rows.
func TestAnalysesMerged(t *testing.T) {
	conn, err := driver.Open(engine.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, statement := range []string{ // contents of a size for which the engine prefers the projection
		"INSERT INTO item_outcomes (job_id, batch_index, position, content_id, content, read_at) " +
			"SELECT 'p-b-0', number % 50, number, toString(number), repeat('x', 4000), now() FROM numbers(40000)",
		"INSERT INTO item_analyses (job_id, batch_index, position, impact, read_at) " +
			"SELECT 'p-b-0', number % 50, number, 1, now() FROM numbers(40000)",
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var all, joined uint64
	if err := conn.QueryRow(t.Context(), "SELECT count(), countIf(impact = 1) FROM post_analytics").Scan(&all, &joined); err != nil {
		t.Fatal(err)
	}
	if all != 40000 || joined != all {
		t.Errorf("%d outcomes, %d of them with what was found out", all, joined)
	}
	local := engine.Topology().Local("post_analytics")
	for _, query := range []string{
		"SELECT count() FROM post_analytics", "SELECT platform, avg(impact) FROM post_analytics GROUP BY platform",
		"SELECT content_id, impact FROM post_analytics ORDER BY impact DESC LIMIT 10",
		"SELECT count() FROM post_analytics WHERE impact > 0 AND language = ''",
		"SELECT count() FROM post_analytics WHERE analysed_at IS NULL",
	} {
		rows, err := conn.Query(t.Context(), "EXPLAIN actions = 1 "+strings.ReplaceAll(query, "post_analytics", local))
		if err != nil {
			t.Fatal(err)
		}
		var merged, inOrder, others int
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			switch strings.TrimSpace(line) {
			case "Algorithm: FullSortingMergeJoin":
				merged++
			case "ReadType: InOrder":
				inOrder++
			}
			if strings.Contains(line, "by_content_id") || strings.Contains(line, "HashJoin") {
				others++
			}
		}
		if err := errors.Join(rows.Close(), conn.Exec(t.Context(), query)); err != nil {
			t.Fatal(err)
		}
		if merged != 2 || inOrder < 3 || others != 0 {
			t.Errorf("%s: %d merges, %d reads in order, %d other ways", query, merged, inOrder, others)
		}
	}
}
