package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCrawls: sources that exist are imported, each that is enabled gets the job that
// follows from it, workers tell how crawls that took place have ended, and what
// Millrace says of jobs and runs is what a recount says. It takes a sample;
// MILLRACE_LONG=1 takes 10,767 sources and 58,916 crawls.
func TestCrawls(t *testing.T) {
	t.Parallel()
	list, log := crawlHistory(t)
	s := up(t)
	began := time.Now()
	enabled, disabled := s.importSources(t, list)
	s.awaitJobs(t, enabled, disabled)
	t.Logf("%d sources have their jobs after %s", len(enabled), time.Since(began).Round(time.Millisecond))

	c := newCrawler(s, enabled, log)
	began = time.Now()
	c.replay(t)
	t.Logf("%d runs have ended within %s", c.count(), time.Since(began).Round(time.Millisecond))
	c.stop(t)
	began = time.Now()
	c.checkStats(t, len(enabled)+len(disabled))
	c.checkSources(t, disabled)
	c.checkMetrics(t)
	t.Logf("%d sources are compared within %s", len(enabled)+len(disabled), time.Since(began).Round(time.Millisecond))
}

// crawled is a crawl that has taken place.
type crawled struct {
	articles int
	seconds  float64
	err      string // empty: it succeeded
}

// crawlHistory are real lists of sources and crawls: rows of tables. They name neither
// how urgent sources are nor how long crawls took.
func crawlHistory(t *testing.T) (list []map[string]string, log map[string][]crawled) {
	t.Helper()
	sources, fetches := "testdata/crawls/sources.csv", "testdata/crawls/fetches.csv"
	if os.Getenv("MILLRACE_LONG") != "" {
		const data = "../../../shared/data"
		sources, fetches = data+"/sources/all_sources.csv.gz", data+"/logs/news_fetch_log.csv.gz"
		if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("the lists of sources and crawls are not at %s: without MILLRACE_LONG a sample is taken", data)
		}
	}
	log = map[string][]crawled{}
	for _, row := range readTable(t, fetches) {
		articles, _ := strconv.Atoi(row["n_articles"])
		size, err := strconv.Atoi(row["bytes"])
		if err != nil {
			t.Fatal(err)
		}
		log[row["feed"]] = append(log[row["feed"]], crawled{articles, float64(size) / 10_000, row["error"]})
	}
	return readTable(t, sources), log
}

// readTable reads CSV, which may be compressed.
func readTable(t *testing.T, path string) (rows []map[string]string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	from := io.Reader(file)
	if filepath.Ext(path) == ".gz" {
		if from, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	all, err := csv.NewReader(from).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		rows = append(rows, row)
	}
	return rows
}

// wantedSource is a source as its line says it.
type wantedSource struct {
	ID, Name, URL, Priority string
	Enabled                 bool
	RateLimit               int `json:"rate_limit"`
	MaxDepth                int `json:"max_depth"`
}

// importSources imports a list, to which it adds how urgent the sources are, how they
// may be crawled, and which are disabled.
func (s *server) importSources(t *testing.T, list []map[string]string) (enabled, disabled map[string]wantedSource) {
	t.Helper()
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	columns := []string{"name", "url", "category", "priority", "rate_limit", "max_depth", "enabled"}
	rows, want, refused := [][]string{columns}, map[string]wantedSource{}, 0
	for i, row := range list {
		one := wantedSource{
			Name: row["name"], URL: row["url"], Priority: []string{"low", "normal", "high", "critical"}[i%4],
			RateLimit: []int{1, 5, 6, 10, 11, 20, 21}[i%7], MaxDepth: []int{1, 2, 3, 5, 6}[i%5], Enabled: i%10 != 9,
		}
		rows = append(rows, []string{
			one.Name, one.URL, row["category"], one.Priority, strconv.Itoa(one.RateLimit),
			strconv.Itoa(one.MaxDepth), strconv.FormatBool(one.Enabled),
		})
		address, err := url.Parse(one.URL)
		_, twice := want[one.URL]
		switch {
		case err != nil || address.Host == "":
			refused++
			continue
		case twice:
			continue
		case one.Name == "":
			one.Name = address.Host
		}
		want[one.URL] = one
	}
	if err := w.WriteAll(rows); err != nil {
		t.Fatal(err)
	}
	status, _, answer := s.post("/sources/import", "text/csv", text.String())
	var done struct{ Created, Repeated, Refused int }
	if err := json.Unmarshal(answer, &done); err != nil || status != http.StatusOK {
		t.Fatalf("import: %d %.500s", status, answer)
	}
	if done.Created != len(want) || done.Refused != refused || done.Created+done.Repeated+refused != len(list) {
		t.Fatalf("import of %d lines: %+v, want %d sources and %d refused", len(list), done, len(want), refused)
	}
	return s.foundSources(t, want)
}

// foundSources holds the sources that there are to those that were listed.
func (s *server) foundSources(t *testing.T, want map[string]wantedSource) (enabled, disabled map[string]wantedSource) {
	t.Helper()
	enabled, disabled = map[string]wantedSource{}, map[string]wantedSource{}
	for _, got := range pages[wantedSource](s, "/sources?limit=1000") {
		expect := want[got.URL]
		if expect.ID = got.ID; got != expect {
			t.Errorf("source %+v, want %+v", got, expect)
		}
		if got.Enabled {
			enabled[got.ID] = got
		} else {
			disabled[got.ID] = got
		}
	}
	if len(enabled)+len(disabled) != len(want) {
		t.Fatalf("%d sources, want %d", len(enabled)+len(disabled), len(want))
	}
	return enabled, disabled
}

// pages reads all pages of a list. The path has parameters.
func pages[T any](s *server, path string) (all []T) {
	s.t.Helper()
	for cursor := ""; ; {
		status, _, text := s.fetch(path + cursor)
		var page struct {
			Items      []T
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil || status != http.StatusOK {
			s.t.Fatalf("GET %s: %d %.500s", path, status, text)
		}
		if all = append(all, page.Items...); page.NextCursor == "" {
			return all
		}
		cursor = "&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

// crawlJob is the part of a job that tests look at.
type crawlJob struct {
	ID, Status  string
	SourceID    string `json:"source_id"`
	PausedBy    string `json:"paused_by"`
	AutoManaged bool   `json:"auto_managed"`
	Interval    int    `json:"interval_minutes"`
	Priority    int
	AtATime     int `json:"max_concurrent"`
}

// awaitJobs waits until each source that is enabled has its job, and holds the jobs to
// what follows from their sources.
func (s *server) awaitJobs(t *testing.T, enabled, disabled map[string]wantedSource) {
	t.Helper()
	poll(t, waitLimit, fmt.Sprint(len(enabled), " jobs"), func() bool {
		return get[struct{ Total int }](s, "/jobs", "limit=1").Total >= len(enabled)
	})
	seen := map[string]bool{}
	for _, j := range pages[crawlJob](s, "/jobs?limit=1000") {
		of, ok := enabled[j.SourceID]
		if seen[j.SourceID] || !ok {
			t.Fatalf("the job %+v: another one of its source, or its source is disabled", j)
		}
		seen[j.SourceID] = true
		want := crawlJob{
			ID: j.ID, Status: j.Status, SourceID: of.ID, AutoManaged: true, Interval: recomputedInterval(of),
			Priority: map[string]int{"low": 25, "normal": 50, "high": 75, "critical": 100}[of.Priority],
			AtATime:  map[string]int{"low": 1, "normal": 1, "high": 2, "critical": 3}[of.Priority],
		}
		if j != want || j.Status != "pending" && j.Status != "running" {
			t.Fatalf("the job of %+v is %+v, want %+v", of, j, want)
		}
	}
	if len(seen) != len(enabled) {
		t.Fatalf("%d jobs of %d sources, and %d more are disabled", len(seen), len(enabled), len(disabled))
	}
}

// recomputedInterval computes the minutes between two runs as the table of the rules
// has it.
func recomputedInterval(s wantedSource) int {
	minutes := map[string]float64{"low": 180, "normal": 60, "high": 30, "critical": 15}[s.Priority]
	for _, band := range []struct {
		value, from, to int
		factor          float64
	}{
		{s.RateLimit, 1, 5, 1.5},
		{s.RateLimit, 11, 20, 0.75},
		{s.RateLimit, 21, 1000, 0.5},
		{s.MaxDepth, 3, 5, 1.25},
		{s.MaxDepth, 6, 100, 1.5},
	} {
		if band.value >= band.from && band.value <= band.to {
			minutes = math.Floor(minutes * band.factor)
		}
	}
	return int(minutes)
}

// madeUp are courses of runs of which the real ones have no example, by the health that
// they end in: failed, warning and healthy.
var madeUp = []string{"fff", "sfff", "ssssssssssf", "ssssssssfs", "sssssssssfs", "fffs" + strings.Repeat("s", 30)}

// newCrawler gives the crawls of each feed, and the courses that are made up, to a
// source each.
func newCrawler(s *server, enabled map[string]wantedSource, log map[string][]crawled) *crawler {
	c := &crawler{
		server: s, ids: slices.Sorted(maps.Keys(enabled)), jobs: map[string]string{},
		log: map[string][]crawled{}, last: map[string]crawled{}, told: map[string][]crawled{},
	}
	for _, feed := range slices.Sorted(maps.Keys(log)) {
		c.log[c.ids[len(c.log)]] = log[feed]
	}
	for _, course := range madeUp {
		var all []crawled
		for i, end := range course {
			one := crawled{articles: i, seconds: float64(i) / 4}
			if end == 'f' {
				one = crawled{err: "made up"}
			}
			all = append(all, one)
		}
		c.log[c.ids[len(c.log)]] = all
	}
	for _, j := range pages[crawlJob](s, "/jobs?limit=1000") {
		c.jobs[j.SourceID] = j.ID
	}
	return c
}
