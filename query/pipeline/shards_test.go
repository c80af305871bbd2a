package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
)

// TestShardAway: with a shard away, an answer that needs it is refused as one for which the database is away, and no
// smaller number is given. Counts that are held in memory are served.
func TestShardAway(t *testing.T) {
	slowtest.Mark(t)
	shards := embeddedtest.StartShards(t, 2)
	r := newRig(t, options{engine: shards.ClickHouse()})
	var all []event.Event
	for i := range 60 {
		all = append(all, event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%d", i/2), SourceName: "alpha", ServiceName: "test",
			Stage: []string{"crawled", "indexed"}[i%2], OccurredAt: r.now().Add(-time.Hour),
		})
	}
	r.write(all...)
	crawled := func() {
		t.Helper()
		var f Funnel
		if status := r.Get("/funnel", nil, &f); status != http.StatusOK || f.Stages[0].Count != 30 ||
			f.Stages[0].UniqueArticles != 30 {
			t.Errorf("the funnel is %d %+v", status, f.Stages)
		}
	}
	paths := []string{"/events", "/stats/drift", "/funnel/sources", "/articles?stuck_after=crawled"}
	ask := func(want int) {
		t.Helper()
		for _, path := range paths {
			path, query, _ := strings.Cut(path, "?")
			name, value, _ := strings.Cut(query, "=")
			values := viewtest.Values()
			if query != "" {
				values = viewtest.Values(name, value)
			}
			var p httpapi.Problem
			status := r.Get(path, values, &p)
			for late := time.Now().Add(time.Minute); status != want && time.Now().Before(late); {
				if status != http.StatusServiceUnavailable { // which asks to try again
					break
				}
				status = r.Get(path, values, &p)
			}
			if status != want {
				t.Errorf("%s: %d %+v, want %d", path, status, p, want)
			}
		}
	}
	crawled()
	ask(http.StatusOK)
	shards.Stop(t, 1)
	for range 2 { // over the old connection and over none
		crawled()
		ask(http.StatusServiceUnavailable)
	}
	shards.Start(t, 1)
	crawled()
	ask(http.StatusOK)
}
