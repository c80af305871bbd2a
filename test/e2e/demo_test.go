package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDemonstration holds the promise that a demonstration leaves a filled data
// folder as it was, byte for byte, and that the folder of a demonstration is
// taken for nothing else.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	s := up(t)
	if status, _, body := s.post("/events", "application/json", valid(nil)); status != 201 {
		t.Fatalf("status %d: %s", status, body)
	}
	s.caughtUp()
	s.stop()
	before := contents(t, s.data)

	s.process = launch(t, s.ports.env(), nil, "up", "--data", s.data)
	if !s.becomesReady() {
		t.Fatalf("the demonstration ended while it started:\n%s", s.log)
	}
	poll(t, waitLimit, "events of the demonstration", func() bool {
		return get[funnel](s, "/funnel", "period=24h").Stages[0].Events > 1
	})
	s.showsAll()
	if !strings.Contains(s.log.String(), filepath.Join(s.data, "demo")) {
		t.Errorf("the log does not name the demonstration's data folder:\n%s", s.log)
	}
	s.stop()
	s.goesOn()
	after := contents(t, s.data)
	maps.DeleteFunc(after, func(name string, _ [32]byte) bool {
		return name == "demo" || strings.HasPrefix(name, "demo/")
	})
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if sum, is := after[name]; !is || sum != before[name] {
			t.Errorf("the demonstration has changed %s", name)
		}
		delete(after, name)
	}
	for name := range after {
		t.Errorf("the demonstration has left %s", name)
	}

	mustFail(t, s.ports.env(), []string{"up", "--no-demo", "--data", filepath.Join(s.data, "demo")},
		"demonstration", "set MILLRACE_DATA")
	mustFail(t, append(s.ports.env(), "MILLRACE_NATS_URL=nats://127.0.0.1:1"), []string{"up", "--data", s.data},
		"MILLRACE_NATS_URL", "--no-demo")

	s.restart()
	s.caughtUp()
	if stages := get[funnel](s,
		"/funnel", "period=24h").Stages; stages[0].Events+stages[1].Events+stages[2].Events != 1 {
		t.Errorf("beside the one event that was published there are others: %+v", stages)
	}
}

// showsAll waits until a demonstration has something to show on every page: three
// dead letters of three rules, a queue and a file at work, two versions of a model,
// a source that fell silent and came back.
func (s *server) showsAll() {
	t := s.t.(*testing.T)
	t.Helper()
	poll(t, waitLimit, "dead letters of three rules", func() bool {
		rules := map[string]bool{}
		for _, l := range get[struct{ Letters []struct{ Code string } }](s, "/dlq", "").Letters {
			rules[l.Code] = true
		}
		return len(rules) == 3
	})
	poll(t, waitLimit, "a file of which a shard is worked", func() bool {
		var files struct{ Files []struct{ Filename string } }
		if files = get[struct{ Files []struct{ Filename string } }](s, "/pipeline/files", ""); len(files.Files) == 0 {
			return false
		}
		_, _, body := s.fetch("/pipeline/files/" + files.Files[0].Filename)
		return strings.Contains(string(body), `"done"`)
	})
	poll(t, waitLimit, "items of a queue that are done", func() bool {
		status, _, body := s.fetch("/queues/thumbnails")
		var q struct{ States struct{ Done int } }
		return status == http.StatusOK && json.Unmarshal(body, &q) == nil && q.States.Done > 0
	})
	poll(t, waitLimit, "a source that was silent", func() bool {
		type source struct {
			LongestGap struct{ Seconds int } `json:"longest_gap"`
		}
		sources := get[struct{ Sources []source }](s, "/funnel/sources", "period=24h&q=Youtube.com").Sources
		return len(sources) > 0 && sources[0].LongestGap.Seconds >= 75*60 // 105 minutes, but for parts of quarters
	})
	poll(t, waitLimit, "runs of jobs that have and have not succeeded, and a job that is paused", func() bool {
		var stats struct {
			ByStatus map[string]int `json:"jobs_by_status"`
			Day      struct {
				Successful int `json:"successful_runs"`
				Failed     int `json:"failed_runs"`
				Articles   int `json:"articles_extracted"`
			} `json:"last_24h"`
		}
		_, _, body := s.fetch("/jobs/stats")
		return json.Unmarshal(body, &stats) == nil && stats.ByStatus["paused"] > 0 && stats.Day.Successful > 0 &&
			stats.Day.Failed > 0 && stats.Day.Articles > 0
	})
	poll(t, waitLimit, "24 sources, of which one has a crawl window", func() bool {
		var sources struct{ Total int }
		_, _, body := s.fetch("/sources")
		there := json.Unmarshal(body, &sources) == nil && sources.Total == 24
		_, _, body = s.fetch("/jobs")
		return there && strings.Contains(string(body), `"start_hour":6`)
	})
	poll(t, waitLimit, "bulk actions that have ended", func() bool {
		var acts struct{ Items []struct{ State string } }
		_, _, body := s.fetch("/acts")
		return json.Unmarshal(body, &acts) == nil && len(acts.Items) > 1 && acts.Items[0].State == "finished"
	})
	poll(t, waitLimit, "batches with errors, and uploads by both processors", func() bool {
		var found struct {
			Items []struct {
				State      string
				QueueState string `json:"queue_state"`
				Done       int    `json:"processed_items"`
			}
		}
		_, _, body := s.fetch("/batches?state=partial")
		partial := json.Unmarshal(body, &found) == nil && len(found.Items) > 0
		_, _, body = s.fetch("/uploads")
		done := json.Unmarshal(body, &found) == nil && len(found.Items) == 2
		for _, u := range found.Items {
			done = done && u.Done > 0
		}
		return partial && done
	})
	poll(t, waitLimit, "articles that are stuck after the first stage", func() bool {
		return len(get[struct{ Articles []any }](s, "/articles", "stuck_after=crawled").Articles) > 0
	})
	poll(t, waitLimit, "weeks of history, in each of two months", func() bool {
		month := func(from, to int) int {
			at := func(days int) string { return time.Now().UTC().AddDate(0, 0, -days).Format(time.RFC3339) }
			return get[funnel](s, "/funnel", "from="+at(from)+"&to="+at(to)).Stages[0].Events
		}
		return month(30, 1) > 3000 && month(60, 30) > 3000
	})
	poll(t, waitLimit, "two versions of the model", func() bool {
		return len(get[struct {
			Versions []any `json:"model_versions"`
		}](s, "/stats/drift", "period=24h").Versions) == 2
	})
}

// goesOn starts a demonstration again, and wants articles that it has not had.
func (s *server) goesOn() {
	t := s.t.(*testing.T)
	t.Helper()
	count := func() (int, int) {
		first := get[funnel](s, "/funnel", "period=7d").Stages[0]
		return first.Events, first.Uniques
	}
	s.process = launch(t, s.ports.env(), nil, "up", "--data", s.data)
	if !s.becomesReady() {
		t.Fatalf("the demonstration ended while it started again:\n%s", s.log)
	}
	events, articles := count()
	poll(t, waitLimit, "new articles after a restart", func() bool {
		now, unique := count()
		// Most of what a start brings first are new articles: one that replays those of the
		// start before has none for long.
		return now > events+100 && unique > articles+(now-events)/2
	})
	s.stop()
}

// TestDemonstrationAmongOthers holds the promise that a demonstration does not
// start in a folder that holds anything which it did not make.
func TestDemonstrationAmongOthers(t *testing.T) {
	t.Parallel()
	data := dataFolder(t)
	if err := os.MkdirAll(filepath.Join(data, "demo", "nats"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustFail(t, freePorts(t).env(), []string{"up", "--data", data}, filepath.Join(data, "demo"), "nats", "--no-demo")
}

// contents returns the names below a folder, with the sums of files.
func contents(t *testing.T, dir string) map[string][32]byte {
	t.Helper()
	all := map[string][32]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || !entry.Type().IsRegular() {
			all[name] = [32]byte{}
			return err
		}
		text, err := os.ReadFile(path)
		all[name] = sha256.Sum256(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
