package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
)

// execution is a run as Millrace tells of it.
type execution struct {
	ID, Status, Error string
	Articles          int      `json:"articles_count"`
	Duration          *float64 `json:"duration_seconds"`
}

// jobOfSource is the job of a source with its health.
type jobOfSource struct {
	Job    crawlJob
	Health struct {
		Status, LastStatus string
		LastRun            string   `json:"last_run_status"`
		Runs               int      `json:"last_24h_runs"`
		Failures           int      `json:"last_24h_failures"`
		Articles           int      `json:"last_24h_articles"`
		Rate               *float64 `json:"success_rate"`
		Seconds            *float64 `json:"avg_duration_seconds"`
	}
	Recent []execution `json:"recent_executions"`
}

// checkSources holds what is told of each source to the recount.
func (c *crawler) checkSources(t *testing.T, disabled map[string]wantedSource) {
	t.Helper()
	var g errgroup.Group
	g.SetLimit(8)
	for _, id := range c.ids {
		g.Go(func() error { return c.checkSource(id) })
	}
	for id := range disabled {
		g.Go(func() error {
			var none struct{ Items []execution }
			if err := c.ask("/jobs/by-source/"+id, http.StatusNotFound, nil); err != nil {
				return err
			}
			err := c.ask("/sources/"+id+"/executions", http.StatusOK, &none)
			if err == nil && len(none.Items) > 0 {
				err = fmt.Errorf("the source %s is disabled, and has %d runs", id, len(none.Items))
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// ask reads JSON in a goroutine that cannot end the test.
func (c *crawler) ask(path string, want int, into any) error {
	resp, err := http.Get(c.url(api + path))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want {
		return fmt.Errorf("GET %s: %d %.500s: %w", path, resp.StatusCode, text, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func (c *crawler) checkSource(id string) error {
	want := recount(c.told[id])
	var got jobOfSource
	if err := c.ask("/jobs/by-source/"+id, http.StatusOK, &got); err != nil {
		return err
	}
	h := got.Health
	same := got.Job.ID == c.jobs[id] && h.Status == want.health() && h.LastRun == want.last && h.Runs == want.runs &&
		h.Failures == want.failures && h.Articles == want.articles
	if want.runs == 0 {
		same = same && h.Rate == nil && h.Seconds == nil
	} else {
		same = same && h.Rate != nil && *h.Rate == want.rate() &&
			h.Seconds != nil && (want.failures > 0 || math.Abs(*h.Seconds-want.seconds/float64(want.runs)) < 0.051)
	}
	if !same {
		text, _ := json.Marshal(h)
		return fmt.Errorf("the health of the source %s is %s, want %s, %+v", id, text, want.health(), want)
	}
	all, err := c.executions(id)
	if err != nil {
		return err
	}
	if last := all[:min(10, len(all))]; !slices.EqualFunc(got.Recent, last, sameExecution) {
		return fmt.Errorf("the last runs of the source %s are %+v, want %+v", id, got.Recent, last)
	}
	ended := slices.DeleteFunc(all, func(e execution) bool { return e.Status == "cancelled" })
	c.cancelled.Add(int64(len(all) - len(ended)))
	return c.checkExecutions(id, ended)
}

func sameExecution(a, b execution) bool {
	return a.ID == b.ID && a.Status == b.Status && a.Articles == b.Articles
}

// executions reads all runs of a source, the latest first.
func (c *crawler) executions(id string) (all []execution, err error) {
	for cursor := ""; ; {
		var page struct {
			Items      []execution
			NextCursor string `json:"next_cursor"`
		}
		if err := c.ask("/sources/"+id+"/executions?limit=1000"+cursor, http.StatusOK, &page); err != nil {
			return nil, err
		}
		if all = append(all, page.Items...); page.NextCursor == "" {
			return all, nil
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

// checkExecutions holds runs to what was told of each, in the order in which it was.
// The worker's seconds count where it has succeeded.
func (c *crawler) checkExecutions(id string, got []execution) error {
	told := c.told[id]
	if len(got) != len(told) {
		return fmt.Errorf("the source %s has %d runs, want %d", id, len(got), len(told))
	}
	for i, want := range told {
		e, status := got[len(got)-1-i], "success"
		if want.err != "" {
			status = "failed"
		}
		if e.Status != status || e.Error != want.err || e.Duration == nil ||
			status == "success" && (e.Articles != want.articles || *e.Duration != want.seconds) {
			return fmt.Errorf("run %d of the source %s is %+v, want %+v", i, id, e, want)
		}
	}
	return nil
}

// checkMetrics holds the metrics of events, jobs and crawls to their names and labels,
// and numbers of them to the recount.
func (c *crawler) checkMetrics(t *testing.T) {
	t.Helper()
	for _, series := range []string{
		`crawler_events_received_total{event_type="SOURCE_CREATED"} \d+`,
		`crawler_events_processed_total{event_type="SOURCE_CREATED",result="success"} \d+`,
		`crawler_event_processing_duration_seconds_bucket{event_type="SOURCE_CREATED",le="0.01"} \d+`,
		`crawler_event_processing_duration_seconds_bucket{event_type="SOURCE_CREATED",le="5"} \d+`,
		`crawler_consumer_lag_messages 0`,
		fmt.Sprintf(`crawler_jobs_created_total %s`, number(len(c.ids))),
		`crawler_jobs_updated_total \d+`,
		`crawler_jobs_by_status{status="paused"} \d+`,
		`crawler_jobs_by_priority{priority="75"} \d+`,
		`crawler_jobs_in_backoff \d+`,
		`crawler_runs_under_way{state="queued"} \d+`,
		`crawler_runs_under_way{state="active"} \d+`,
		`crawler_scheduler_runs_total \d+`,
		fmt.Sprintf(`crawler_scheduler_jobs_dispatched_total %s`, number(c.count()+int(c.cancelled.Load()))),
		`crawler_crawl_duration_seconds_bucket{source_name="[^\n]+",status="success",le="1"} \d+`,
		`crawler_crawl_duration_seconds_bucket{source_name="[^\n]+",status="failed",le="300"} \d+`,
		`crawler_articles_extracted_total{source_name="[^\n]+"} \d+`,
	} {
		wanted := regexp.MustCompile(`(?m)^` + series)
		poll(t, waitLimit, series+" in /metrics", func() bool { // jobs are counted now and then
			resp, err := http.Get(c.url("/metrics"))
			_, _, text := c.read(resp, err)
			return wanted.Match(text)
		})
	}
}

// number is how /metrics writes a whole number.
func number(n int) string { return regexp.QuoteMeta(fmt.Sprint(float64(n))) + "$" }
