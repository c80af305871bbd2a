package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// TestSourceStorm: several callers disable and enable all sources at once, each in an
// order of its own, so that they cross each other. Then each job is as its source is,
// and each event was applied once, or was stale. MILLRACE_LONG=1 takes 10,767 sources.
func TestSourceStorm(t *testing.T) {
	t.Parallel()
	list, _ := crawlHistory(t)
	s := up(t)
	enabled, disabled := s.importSources(t, list)
	s.awaitJobs(t, enabled, disabled)
	ids := append(slices.Collect(maps.Keys(enabled)), slices.Collect(maps.Keys(disabled))...)
	page := 500
	if os.Getenv("MILLRACE_LONG") == "" {
		page = len(ids) / 4
	}
	began := time.Now()
	var g errgroup.Group
	for caller := range uint64(4) {
		g.Go(func() error { return s.toggle(ids, page, rand.New(rand.NewPCG(1, caller)), caller%2 == 0) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	answered := time.Since(began)
	events := s.awaitLog(t, len(ids))
	t.Logf("%d sources were toggled within %s; %d events settled within %s, %.0f a second", len(ids),
		answered.Round(time.Millisecond), events, time.Since(began).Round(time.Millisecond),
		float64(events)/time.Since(began).Seconds())
	s.checkFollowed(t)
}

// toggle disables and enables sources in turns, a page at a time.
func (s *server) toggle(ids []string, page int, order *rand.Rand, enable bool) error {
	ids = slices.Clone(ids)
	for range 2 {
		operation := "disable"
		if enable = !enable; enable {
			operation = "enable"
		}
		order.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for some := range slices.Chunk(ids, page) {
			body, err := json.Marshal(map[string]any{"operation": operation, "ids": some})
			if err != nil {
				return err
			}
			resp, err := http.Post(s.url(api+"/sources/bulk"), "application/json", bytes.NewReader(body))
			if err != nil {
				return err
			}
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"ok":false`)) {
				return fmt.Errorf("%s %d sources: %d %.500s: %w", operation, len(some), resp.StatusCode, answer, err)
			}
		}
	}
	return nil
}

// loggedEvent is what became of an event.
type loggedEvent struct {
	ID       string `json:"event_id"`
	Outcome  string
	Sequence uint64
}

// awaitLog waits until all events of sources are published and processed, holds what
// became of them to the promise, and returns how many they were.
func (s *server) awaitLog(t *testing.T, least int) int {
	t.Helper()
	db, err := pgx.Connect(t.Context(), s.postgresDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	js, err := jetstream.New(s.nats())
	if err != nil {
		t.Fatal(err)
	}
	var waiting, processed, last, before uint64
	for settled := false; !settled; {
		poll(t, waitLimit, fmt.Sprintf("more than %d of %d events to be processed, %d wait to be published",
			processed, last, waiting), func() bool {
			err := db.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM millrace.message_outbox),
				(SELECT count(*) FROM millrace.processed_events)`).Scan(&waiting, &processed)
			if err != nil {
				t.Fatal(err)
			}
			events, err := js.Stream(t.Context(), "SOURCES")
			if err != nil {
				t.Fatal(err)
			}
			last = events.CachedInfo().State.LastSeq
			settled = waiting == 0 && processed == last
			return settled || processed >= before+1000
		})
		before = processed
	}
	seen, outcomes := map[uint64]bool{}, map[string]int{}
	for _, e := range pages[loggedEvent](s, "/events/log?limit=1000") {
		if outcomes[e.Outcome]++; seen[e.Sequence] {
			t.Errorf("the event %s at %d is in the log twice", e.ID, e.Sequence)
		}
		seen[e.Sequence] = true
	}
	if len(seen) != int(last) || outcomes["applied"]+outcomes["stale"] != len(seen) || len(seen) <= least {
		t.Errorf("of %d events, the log has %d: %v", last, len(seen), outcomes)
	}
	if dead := get[struct{ Total int }](s, "/dlq", ""); dead.Total > 0 {
		t.Errorf("%d dead letters", dead.Total)
	}
	t.Logf("the log has %v", outcomes)
	return int(last)
}

// checkFollowed holds each job to its source.
func (s *server) checkFollowed(t *testing.T) {
	t.Helper()
	jobs := map[string]crawlJob{}
	for _, j := range pages[crawlJob](s, "/jobs?limit=1000") {
		if _, twice := jobs[j.SourceID]; twice {
			t.Errorf("the source %s has two jobs", j.SourceID)
		}
		jobs[j.SourceID] = j
	}
	on := 0
	for _, of := range pages[wantedSource](s, "/sources?limit=1000") {
		j := jobs[of.ID]
		delete(jobs, of.ID)
		follows := j.Status == "paused" && j.PausedBy == "source"
		if of.Enabled {
			on++
			follows = j.Status == "pending" || j.Status == "running"
		}
		if !follows {
			t.Errorf("the job of %+v is %+v", of, j)
		}
	}
	if len(jobs) > 0 {
		t.Errorf("%d jobs have no source", len(jobs))
	}
	t.Logf("%d sources are enabled", on)
}
