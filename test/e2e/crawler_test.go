package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// crawler is a worker of the queue crawl, and keeps account of what it tells.
type crawler struct {
	*server
	ids  []string             // of the sources that are enabled
	jobs map[string]string    // by their sources
	log  map[string][]crawled // what is still to be told, by sources

	last map[string]crawled // of the log that was told, by sources

	cancelled atomic.Int64 // runs that were queued when their jobs were paused

	mu   sync.Mutex
	told map[string][]crawled // in this order
}

// replay has the runs of jobs end as the log says, until it is at its end. A job that
// runs again ends as at last, and one that the log does not know succeeds.
func (c *crawler) replay(t *testing.T) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(c.log)) { // so that its runs end in their order
		c.jobCommand(t, http.MethodPut, c.jobs[id]+"/override", `{"max_concurrent":1}`)
	}
	left := time.Now().Add(waitLimit)
	for {
		var due []string
		for id, log := range c.log {
			if len(log) > 0 {
				due = append(due, c.jobs[id])
			}
		}
		if len(due) == 0 {
			return
		}
		c.bulkJobs(t, "force-run", due)
		switch {
		case c.work(t) > 0:
			left = time.Now().Add(waitLimit)
		case time.Now().After(left):
			t.Fatalf("%d jobs do not run", len(due))
		default:
			time.Sleep(10 * time.Millisecond) // between two looks into the queue
		}
	}
}

// stop pauses all jobs, and returns when each run has ended and is counted.
func (c *crawler) stop(t *testing.T) {
	t.Helper()
	c.bulkJobs(t, "pause", slices.Collect(maps.Values(c.jobs)))
	poll(t, waitLimit, "all runs to end", func() bool {
		c.work(t)
		queue := get[struct{ Ready, Running int }](c.server, "/queues/crawl", "")
		stats := get[crawlStats](c.server, "/jobs/stats", "")
		return queue.Ready+queue.Running == 0 && stats.Day.Runs == c.count()
	})
}

// count is how many runs have ended.
func (c *crawler) count() (n int) {
	for _, all := range c.told {
		n += len(all)
	}
	return n
}

func (s *server) jobCommand(t *testing.T, method, path, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url(api+"/jobs/"+path), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	status, _, text := s.read(http.DefaultClient.Do(req))
	if status != http.StatusOK {
		t.Fatalf("%s /jobs/%s: %d %.500s", method, path, status, text)
	}
	return text
}

// bulkJobs does one thing to jobs, 500 at a time.
func (c *crawler) bulkJobs(t *testing.T, operation string, ids []string) {
	t.Helper()
	for some := range slices.Chunk(ids, 500) {
		body, err := json.Marshal(map[string]any{"operation": operation, "ids": some})
		if err != nil {
			t.Fatal(err)
		}
		answer := c.jobCommand(t, http.MethodPost, "bulk", string(body))
		if bytes.Contains(answer, []byte(`"ok":false`)) {
			t.Fatalf("%s: %.500s", operation, answer)
		}
	}
}

// takenRun is an item of the queue crawl.
type takenRun struct {
	ID         int64
	Generation int
	Payload    struct {
		SourceID string `json:"source_id"`
	}
}

// work takes runs, tells how they have ended, and returns how many they were.
func (c *crawler) work(t *testing.T) int {
	t.Helper()
	status, _, text := c.post("/queues/crawl/take", "application/json", `{"worker":"crawler","limit":1000}`)
	var taken struct{ Items []takenRun }
	if err := json.Unmarshal(text, &taken); err != nil || status != http.StatusOK {
		t.Fatalf("take runs: %d %.500s", status, text)
	}
	g, ctx := errgroup.WithContext(t.Context())
	g.SetLimit(8)
	for _, run := range taken.Items {
		id := run.Payload.SourceID
		end, known := c.last[id]
		if log := c.log[id]; len(log) > 0 {
			end, c.log[id] = log[0], log[1:]
			c.last[id] = end
		} else if !known {
			end = crawled{articles: 1, seconds: 1}
		}
		g.Go(func() error { return c.tell(ctx, run, end) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return len(taken.Items)
}

// tell tells how a run has ended.
func (c *crawler) tell(ctx context.Context, run takenRun, end crawled) error {
	move, body := "done", map[string]any{"generation": run.Generation, "worker": "crawler"}
	if end.err == "" {
		body["result"] = map[string]any{"articles_count": end.articles, "duration_seconds": end.seconds}
	} else {
		move, body["error"] = "fail", end.err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	path := c.url(fmt.Sprintf("%s/queues/crawl/items/%d/%s", api, run.ID, move))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of the run %d: %d %.500s: %w", move, run.ID, resp.StatusCode, answer, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told[run.Payload.SourceID] = append(c.told[run.Payload.SourceID], end)
	return nil
}

// crawlStats are the numbers of all jobs.
type crawlStats struct {
	Sources  int                                             `json:"total_sources"`
	Jobs     int                                             `json:"total_jobs"`
	ByStatus map[string]int                                  `json:"jobs_by_status"`
	Health   struct{ Healthy, Warning, Failed, Unknown int } `json:"health"`
	Day      struct {
		Runs     int      `json:"total_runs"`
		Good     int      `json:"successful_runs"`
		Failed   int      `json:"failed_runs"`
		Articles int      `json:"articles_extracted"`
		Rate     *float64 `json:"success_rate"`
	} `json:"last_24h"`
	Throughput struct {
		Articles int `json:"articles_per_hour"`
		Runs     int `json:"runs_per_hour"`
	} `json:"throughput"`
}

// recounted is the health of a source as its runs say.
type recounted struct {
	runs, failures, articles, inARow int
	seconds                          float64
	last                             string
}

func recount(told []crawled) (r recounted) {
	for _, one := range told {
		r.runs++
		r.articles += one.articles
		r.seconds += one.seconds
		if r.inARow, r.last = r.inARow+1, "failed"; one.err == "" {
			r.inARow, r.last = 0, "success"
		} else {
			r.failures++
		}
	}
	return r
}

// health is what people are told of such runs.
func (r recounted) health() string {
	switch {
	case r.inARow >= 3:
		return "failed"
	case r.inARow > 0 || 10*(r.runs-r.failures) < 9*r.runs:
		return "warning"
	case r.runs == 0:
		return "unknown"
	}
	return "healthy"
}

// rate is the part of the runs that have succeeded, in thousandths.
func (r recounted) rate() float64 {
	return math.Round(1000*float64(r.runs-r.failures)/float64(r.runs)) / 1000
}

// checkStats holds the numbers of all jobs to the recount.
func (c *crawler) checkStats(t *testing.T, sources int) {
	t.Helper()
	var all recounted
	health := map[string]int{}
	for _, id := range c.ids {
		one := recount(c.told[id])
		health[one.health()]++
		all.runs, all.failures, all.articles = all.runs+one.runs, all.failures+one.failures, all.articles+one.articles
	}
	got := get[crawlStats](c.server, "/jobs/stats", "")
	hour := func(n int) int { return int(math.Round(float64(n) / 24)) }
	holds := got.Sources == sources && got.Jobs == len(c.ids) && got.ByStatus["paused"] == len(c.ids) &&
		got.Health.Healthy == health["healthy"] && got.Health.Warning == health["warning"] &&
		got.Health.Failed == health["failed"] && got.Health.Unknown == health["unknown"] && got.Day.Runs == all.runs && got.Day.Failed == all.failures &&
		got.Day.Good == all.runs-all.failures && got.Day.Articles == all.articles &&
		got.Day.Rate != nil && *got.Day.Rate == all.rate() && got.Throughput.Articles == hour(all.articles) &&
		got.Throughput.Runs == hour(all.runs)
	if !holds {
		t.Errorf("the numbers are %+v, want %d sources, %d jobs, health %v, %+v", got, sources, len(c.ids), health, all)
	}
	t.Logf("%d runs, of which %d failed, found %d articles; health %v", all.runs, all.failures, all.articles, health)
	if health["failed"] == 0 || health["warning"] == 0 || health["healthy"] == 0 {
		t.Errorf("health %v: there is none of one kind", health)
	}
}
