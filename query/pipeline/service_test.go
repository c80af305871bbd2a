package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

var server *viewtest.Server

func TestMain(m *testing.M) {
	os.Exit(viewtest.Main(m, func(s *viewtest.Server) { server = s }))
}

// rig is a service on engines of its own, with a clock that the test moves.
type rig struct {
	t      testing.TB
	svc    *Service
	http   *httptest.Server
	nats   *natstest.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	writer *viewtest.Writer
	clock  atomic.Int64
}

var noon = time.Date(2026, 3, 17, 12, 7, 13, 250_000_000, time.UTC)

// newRig prepares a service; before runs when its databases are there and it
// does not run yet.
func newRig(t testing.TB, cfg Config, secret string, before func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t}
	r.clock.Store(noon.UnixNano())
	opts := server.Options(t)
	r.writer = viewtest.NewWriter(t, opts)
	r.nats = natstest.Start(t, stream.Config{})
	r.nc, r.js = r.nats.Connect(), r.nats.JetStream()
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Stages, cfg.Now = stages, r.now
	cfg.KeepSlow = -1 // the machine may be slow, and the clock stands still
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	r.svc, err = New(cfg, Deps{ClickHouse: viewtest.Open(t, opts), NATS: r.nc, JetStream: r.js, Log: log, Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: reg, Checks: r.svc.Checks()})
	if err != nil {
		t.Fatal(err)
	}
	r.svc.Register(srv, auth.New(auth.Config{Secret: secret}))
	r.http = httptest.NewServer(srv.Handler())
	if before != nil {
		before(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.svc.Run(ctx) }()
	t.Cleanup(func() {
		r.http.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	r.until(func() bool { return r.svc.mirror.Err() == nil })
	return r
}

func (r *rig) now() time.Time { return time.Unix(0, r.clock.Load()).UTC() }

// until waits for the mirror to change until a condition holds.
func (r *rig) until(holds func() bool) {
	r.t.Helper()
	for {
		changed := r.svc.mirror.Changed()
		if holds() {
			return
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			r.t.Fatal("the mirror does not come to what is waited for")
		}
	}
}

// write makes events durable, announces them, and waits for the mirror.
func (r *rig) write(events ...event.Event) {
	r.t.Helper()
	d := r.writer.Write(events...)
	viewtest.Announce(r.t, r.nc, d)
	r.until(func() bool { return r.svc.mirror.Folded() >= d.To })
}

// get sends a request and decodes the answer; it returns the status.
func (r *rig) get(path string, query url.Values, answer any) int {
	r.t.Helper()
	resp, err := http.Get(r.http.URL + "/api/v1" + path + "?" + query.Encode())
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(answer); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
	return resp.StatusCode
}

// must is get for requests that succeed.
func (r *rig) must(path string, query url.Values, answer any) {
	r.t.Helper()
	if status := r.get(path, query, answer); status != http.StatusOK {
		r.t.Fatalf("%s?%s: status %d: %+v", path, query.Encode(), status, answer)
	}
}

// draw makes events of the last 31 days, most of them recent, with many of
// them at one time.
func draw(rng *rand.Rand, now time.Time, n int) []event.Event {
	out := make([]event.Event, n)
	for i := range out {
		age := time.Duration(rng.Int64N(int64(31 * 24 * time.Hour)))
		switch rng.IntN(4) {
		case 0:
			age = time.Duration(rng.Int64N(int64(26 * time.Hour)))
		case 1:
			age = time.Duration(rng.IntN(3)) * time.Hour
		case 2:
			age = []time.Duration{24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour}[rng.IntN(3)] + time.Duration(rng.IntN(20)-10)*time.Minute
		}
		stages := []string{"crawled", "indexed", "classified", "routed", "published"}
		out[i] = event.Event{
			ArticleURL: fmt.Sprintf("https://example.com/%d", rng.IntN(n/3+1)), SourceName: fmt.Sprintf("source-%d", rng.IntN(3)),
			Stage: stages[rng.IntN(rng.IntN(5)+1)], OccurredAt: now.Add(-age), ServiceName: "test",
		}
	}
	return out
}

// recount is the definition of a funnel.
func (r *rig) recount(source string, from, to time.Time) []FunnelStage {
	out := []FunnelStage{}
	for _, name := range r.svc.cfg.Stages.Names() {
		stage, seen := FunnelStage{Name: name}, map[string]bool{}
		for _, e := range r.writer.All {
			if e.Stage == name && (source == "" || source == e.SourceName) && !e.OccurredAt.Before(from) && e.OccurredAt.Before(to) {
				stage.Count++
				seen[e.ArticleURL] = true
			}
		}
		stage.UniqueArticles = uint64(len(seen))
		out = append(out, stage)
	}
	return out
}
