package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestOlderTables: when the tables in ClickHouse are put back from an older copy while all else
// goes on, all query services come to show what ClickHouse has, and say that rows are missing
// until that is accepted.
func TestOlderTables(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	other := (&proxy{t: t, s: s}).launch("--role=query")
	poll(t, startLimit, "a second query service to be ready", func() bool {
		status, _ := answerOf(http.Get("http://" + other.addr + "/ready"))
		return status == http.StatusOK
	})
	published := 0
	publish := func(n int) {
		t.Helper()
		var lines strings.Builder
		for range n {
			fmt.Fprintln(&lines, valid(map[string]any{
				"source_name": "older", "article_url": fmt.Sprint("https://example.com/older/", published),
			}))
			published++
		}
		if status, _, body := s.post("/events/batch", "application/x-ndjson", lines.String()); status != http.StatusCreated {
			t.Fatalf("status %d: %s", status, body)
		}
	}
	agree := func(what string, want int) {
		t.Helper()
		poll(t, 2*waitLimit, fmt.Sprintf("%s: both query services to show %d events", what, want), func() bool {
			for _, addr := range []string{s.ports.HTTP, other.addr} {
				status, body := answerOf(http.Get("http://" + addr + api + "/funnel?period=24h&source=older"))
				var f funnel
				if status != http.StatusOK || json.Unmarshal(body, &f) != nil || f.Stages[0].Events != want {
					return false
				}
			}
			return true
		})
	}
	sql := func(statement string) string {
		t.Helper()
		status, text := s.asDefault(statement)
		if status != http.StatusOK {
			t.Fatalf("%s: %s", statement, text)
		}
		return text
	}
	publish(300)
	agree("at first", 300)
	tables := strings.Fields(sql("SELECT name FROM system.tables WHERE database = 'millrace' " +
		"AND engine LIKE '%MergeTree' AND name NOT LIKE '%goose%' AND name NOT LIKE '.%'"))
	if len(tables) < 3 {
		t.Fatalf("tables %v", tables)
	}
	for _, table := range tables {
		sql("CREATE TABLE older_" + table + " AS " + table)
		sql("INSERT INTO older_" + table + " SELECT * FROM " + table)
	}
	publish(200)
	agree("before", 500)
	for _, table := range tables {
		sql("TRUNCATE TABLE " + table)
		sql("INSERT INTO " + table + " SELECT * FROM older_" + table)
	}
	publish(50)
	agree("after", 350)
	poll(t, waitLimit, "the missing rows to be told of", func() bool {
		_, body := answerOf(http.Get(s.url("/health")))
		return strings.Contains(string(body), "lacks 200 of the events")
	})
	accept := launch(t, nil, nil, "accept-identities", "--slot-group=0", "--nats-url="+s.natsURL(), "--data="+s.data)
	if status := accept.wait(t, startLimit); status != 0 {
		t.Fatalf("accept-identities: exit status %d: %s", status, accept.log)
	}
	publish(50)
	agree("accepted", 400)
}
