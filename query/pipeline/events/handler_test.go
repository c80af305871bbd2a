package events

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/internal/viewtest"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

var engine embeddedtest.ClickHouse

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

var noon = viewtest.Noon

// rig is a handler that answers from a database of its own, in which a test
// writes events.
type rig struct {
	*Handler
	*viewtest.Client
	*viewtest.Writer
}

func serve(t *testing.T) *rig {
	t.Helper()
	opts := engine.Database(t)
	r := &rig{Writer: viewtest.NewWriter(t, opts)}
	stages, err := event.ParseStages(event.DefaultStages)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.New(viewtest.Open(t, opts), 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r.Handler = New(Config{
		Stages: stages, Now: func() time.Time { return noon }, Store: s, Analysing: reads.NewPlaces("analyses", 1, 0),
		Folded: func(context.Context) (store.Cut, error) { return store.Cut{uint64(len(r.All))}, nil },
		Notes:  func(context.Context, string) reads.Notes { return nil },
	})
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	srv, err := httpapi.New(httpapi.Config{}, httpapi.Deps{Log: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	r.Register(endpoint.API{
		Server: srv, Auth: auth.New(auth.Config{}), Tag: "Views", Limit: 5 * time.Minute,
		Took:  prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, []string{"endpoint"}),
		Known: func(err error) error { return reads.Problem(log, err) },
	})
	r.Client = viewtest.Serve(t, srv.Handler())
	return r
}
