package pipeline

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

// rig is a service with a NATS server and a database of its own, and a clock
// that the test moves.
type rig struct {
	*viewtest.Client
	t      testing.TB
	svc    *Service
	nats   *natstest.Server
	nc     *nats.Conn
	js     jetstream.JetStream
	writer *viewtest.Writer
	clock  atomic.Int64
}

var noon = viewtest.Noon

// options of a rig. The zero value of a field stands for none.
type options struct {
	Config
	secret string                   // of tokens
	views  []live.View              // beside those of the service
	engine *embeddedtest.ClickHouse // the package's own one when nil
	before func(*rig)               // runs when the databases are there and the service does not run yet
}

// newRig prepares a service.
func newRig(t testing.TB, with options) *rig {
	t.Helper()
	r := &rig{t: t}
	r.clock.Store(noon.UnixNano())
	on := with.engine
	if on == nil {
		on = &engine
	}
	opts := on.Database(t)
	r.writer = viewtest.NewWriter(t, opts)
	r.nats = natstest.Start(t, stream.Config{})
	r.nc, r.js = r.nats.Connect(), r.nats.JetStream()
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	cfg := with.Config
	cfg.Stages, cfg.Now = stages, r.now
	// The machine may be slow, and the clock stands still.
	cfg.KeepSlow, cfg.QueryTimeout = -1, 5*time.Minute
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	r.svc, err = New(cfg, Deps{
		ClickHouse: viewtest.Open(t, opts), NATS: r.nc, JetStream: r.js, Log: log, Registry: reg,
	})
	if err != nil {
		t.Fatal(err)
	}
	hub, err := live.New(live.Config{}, append(with.views, r.svc.Views()...), reg, log)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: reg, Checks: r.svc.Checks()})
	if err != nil {
		t.Fatal(err)
	}
	a := auth.New(auth.Config{Secret: with.secret})
	r.svc.Register(endpoint.API{Server: srv, Auth: a})
	hub.Register(srv, a)
	r.Client = viewtest.Serve(t, srv.Handler())
	if with.before != nil {
		with.before(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.svc.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		hub.Wait()
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
		case <-time.After(5 * time.Minute):
			r.t.Fatal("the mirror does not come to what is waited for")
		}
	}
}

// write makes events durable, announces them, and waits for the mirror.
func (r *rig) write(events ...event.Event) {
	r.t.Helper()
	d := r.writer.Write(events...)
	viewtest.Announce(r.t, r.nc, d)
	r.until(func() bool { return r.svc.mirror.Position().Folded >= d.To })
}

// recount is the definition of a funnel.
func (r *rig) recount(source string, from, to time.Time) []FunnelStage {
	out := []FunnelStage{}
	for _, name := range r.svc.cfg.Stages.Names() {
		stage, seen := FunnelStage{Name: name}, map[string]bool{}
		for _, e := range r.writer.All {
			if e.Stage != name || (source != "" && source != e.SourceName) {
				continue
			}
			if !e.OccurredAt.Before(from) && e.OccurredAt.Before(to) {
				stage.Count++
				seen[e.ArticleURL] = true
			}
		}
		stage.UniqueArticles = uint64(len(seen))
		out = append(out, stage)
	}
	return out
}
