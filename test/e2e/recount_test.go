package e2e

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// recount counts events and distinct articles the plain way, of those that the
// condition holds for. Which of two events with one identity is first is open,
// so a condition must not tell them apart.
func (c *corpus) recount(holds func(sent) bool) []stageCount {
	seen, articles := map[string]bool{}, map[string]map[string]bool{}
	counts := map[string]int{}
	for _, e := range c.events {
		if seen[e.identity()] || !holds(e) {
			continue
		}
		seen[e.identity()] = true
		counts[e.Stage]++
		if articles[e.Stage] == nil {
			articles[e.Stage] = map[string]bool{}
		}
		articles[e.Stage][e.article()] = true
	}
	var out []stageCount
	for _, stage := range c.stages {
		out = append(out, stageCount{stage, counts[stage], len(articles[stage])})
	}
	return out
}

func all(sent) bool { return true }

func (c *corpus) identities() int {
	n := 0
	for _, s := range c.recount(all) {
		n += s.Events
	}
	return n
}

// mustMatch compares all that the server answers with the recount.
func mustMatch(t testing.TB, s *server, c *corpus) {
	t.Helper()
	s.caughtUp()
	window := "period=24h"
	if c.backfill {
		window = between(c.from, c.from.Add(c.span+24*time.Hour))
	}
	mustCount(t, s, window, c.recount(all))
	for _, source := range sources[:4] {
		mustCount(t, s, window+"&source="+url.QueryEscape(source), c.recount(func(e sent) bool {
			return e.Source == source
		}))
	}
	mustEstimate(t, s, window, c.recount(all))
	if rows, want := s.ask("SELECT count() FROM events"), fmt.Sprint(c.identities()); rows != want {
		t.Errorf("the table has %s events, want %s", rows, want)
	}
	if rows, want := s.ask("SELECT stage, count(), uniqExact(url_hash) FROM events GROUP BY stage ORDER BY stage"),
		asTable(c.recount(all)); rows != want {
		t.Errorf("the table has\n%s\nwant\n%s", rows, want)
	}
}

func mustCount(t testing.TB, s *server, params string, want []stageCount) {
	t.Helper()
	f := get[funnel](s, "/funnel", params)
	if f.UniqueMethod != "exact" || f.UniqueError != 0 {
		t.Errorf("%s: distinct articles are %s with an error of %v, want exact", params, f.UniqueMethod, f.UniqueError)
	}
	if !slices.Equal(f.Stages, want) {
		t.Errorf("%s:\n got %v\nwant %v", params, f.Stages, want)
	}
}

// mustEstimate holds sketches to three of their standard errors, and to saying
// that they are sketches.
func mustEstimate(t testing.TB, s *server, params string, want []stageCount) {
	t.Helper()
	f := get[funnel](s, "/funnel", params+"&uniques=sketch")
	if f.UniqueMethod != "sketch" || f.UniqueError <= 0 || f.UniqueError > 0.03 {
		t.Errorf("%s: distinct articles are %s with an error of %v, want sketch with one of about 0.025", params,
			f.UniqueMethod, f.UniqueError)
	}
	for i, stage := range f.Stages {
		off := math.Abs(float64(stage.Uniques - want[i].Uniques))
		if stage.Events != want[i].Events || off > max(1, f.UniqueError*float64(want[i].Uniques)) {
			t.Errorf("%s by sketch: %v, want %v", params, stage, want[i])
		}
	}
}

func between(from, to time.Time) string {
	return "from=" + from.Format(time.RFC3339Nano) + "&to=" + to.Format(time.RFC3339Nano)
}

func asTable(counts []stageCount) string {
	var lines []string
	for _, s := range counts {
		if s.Events > 0 {
			lines = append(lines, fmt.Sprintf("%s\t%d\t%d", s.Name, s.Events, s.Uniques))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
