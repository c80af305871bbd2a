package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/internal/metric"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/events"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// Config shapes the service. The zero value of a field stands for its default.
type Config struct {
	Stages event.Stages // the pipeline's; required
	// QueryTimeout bounds a request and each of its queries; default 10 s.
	QueryTimeout time.Duration
	// ExactEvents is up to how many events of a window distinct articles are
	// counted exactly, unless a request says otherwise; default 2,000,000. It
	// is also how many articles the mirror holds.
	ExactEvents int
	// MostExact is up to how many events of a window distinct articles are counted
	// exactly in the database for a request that says so; default 10,000,000.
	MostExact int
	// MaxSources is how many single sources the mirror keeps current, and how
	// many windows beyond ExactEvents; default live.DefaultFeeds. With fewer than
	// there may be feeds, these evict one another's.
	MaxSources int
	// KeepSlow is for how long at most statistics that took more than half a
	// second serve again although events have been folded since; default 10 s,
	// negative: not at all.
	KeepSlow time.Duration
	// Gaps are the rules that are watched. Those of stages that the pipeline
	// does not have are left out; of those of the same stages the last counts.
	Gaps []Gap
	Now  func() time.Time // default time.Now
}

// maxAnswers bounds the answers of a kind that are kept.
const maxAnswers = 64

// Deps are what the service works with. It closes none of them.
type Deps struct {
	ClickHouse driver.Conn
	NATS       *nats.Conn
	JetStream  jetstream.JetStream
	Log        *slog.Logger
	Registry   prometheus.Registerer
	Tracer     trace.Tracer // nil: nothing is traced
}

// Service answers queries. Register its routes, serve its live views, and run it
// beside the server.
type Service struct {
	cfg       Config
	deps      Deps
	store     *store.Store
	mirror    *mirror.Mirror
	events    *events.Handler
	counting  *reads.Places // bound how many requests count in the database,
	feeding   *reads.Places // how many feeds do,
	analysing *reads.Places // and how many requests analyse what events carry
	exporting *reads.Places // and how many export sources
	roles     store.Roles
	streamEnd *streamEnd
	retired   retired
	durations *prometheus.HistogramVec

	statistics *resultCache[analysis]
	drifts     *resultCache[Drift]
	gaps       atomic.Pointer[ratios]
	nearest    *resultCache[string] // to sources that are not known
}

// New checks the configuration and starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	switch {
	case len(cfg.Stages.Names()) == 0:
		return nil, errors.New("pipeline queries: stages are needed")
	case deps.ClickHouse == nil || deps.NATS == nil || deps.JetStream == nil || deps.Log == nil ||
		deps.Registry == nil:
		return nil, errors.New(
			"pipeline queries: ClickHouse, NATS, JetStream, a logger and a metrics registry are needed",
		)
	}
	cfg.QueryTimeout = cmp.Or(cfg.QueryTimeout, 10*time.Second)
	cfg.ExactEvents = cmp.Or(cfg.ExactEvents, 2_000_000)
	cfg.MostExact = cmp.Or(cfg.MostExact, 10_000_000)
	cfg.MaxSources = cmp.Or(cfg.MaxSources, live.DefaultFeeds)
	cfg.KeepSlow = cmp.Or(cfg.KeepSlow, 10*time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Gaps = knownGaps(cfg.Gaps, cfg.Stages.Names())
	age := max(keepUnchanged, cfg.KeepSlow)
	s := &Service{
		cfg: cfg, deps: deps, roles: rolesOf(cfg.Stages),
		counting:   reads.NewPlaces("counts in the database", countsAtOnce, 0),
		feeding:    reads.NewPlaces("counts for live views", feedsAtOnce, 0),
		analysing:  reads.NewPlaces("analyses", analysesAtOnce, 0),
		exporting:  reads.NewExportPlaces(),
		statistics: newResultCache[analysis](maxAnswers, age, cfg.Now),
		drifts:     newResultCache[Drift](maxAnswers, age, cfg.Now),
		nearest:    newResultCache[string](maxAnswers, knownFor, cfg.Now),
	}
	if err := s.assemble(); err != nil {
		return nil, fmt.Errorf("pipeline queries: %w", err)
	}
	return s, nil
}

func (s *Service) assemble() (err error) {
	if s.store, err = store.New(s.deps.ClickHouse, s.cfg.QueryTimeout); err != nil {
		return err
	}
	// Loading everything may take longer than a request waits.
	loads, err := store.New(s.deps.ClickHouse, time.Minute)
	if err != nil {
		return err
	}
	s.mirror, err = mirror.New(mirror.Config{
		Stages: s.cfg.Stages.Names(), Now: s.cfg.Now, LoadTimeout: time.Minute, Tracer: s.deps.Tracer,
		Limits: mirror.Limits{
			Articles: s.cfg.ExactEvents, Sources: s.cfg.MaxSources, Sketches: s.cfg.MaxSources,
		},
	}, loads, s.deps.Log)
	if err != nil {
		return err
	}
	s.streamEnd = &streamEnd{
		nc: s.deps.NATS, js: s.deps.JetStream, durable: s.mirror.Durable,
		folded: func() uint64 { return s.mirror.Position().Folded },
	}
	s.events = events.New(events.Config{
		Stages: s.cfg.Stages, Now: s.cfg.Now, Store: s.store, Folded: s.folded, Notes: s.notes, Analysing: s.analysing,
	})
	return s.registerMetrics()
}

func (s *Service) registerMetrics() error {
	s.durations = metric.Histograms("pipeline_query_duration_seconds",
		"Time to answer queries, by endpoint; live is a snapshot for live readers.",
		[]float64{.0001, .0005, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "endpoint")
	gauge := func(name, help string, value func(mirror.Stats) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return value(s.mirror.Stats())
		})
	}
	return metric.Register(s.deps.Registry, s.durations,
		gauge("millrace_mirror_articles", "Articles by stage that the mirror holds exactly.",
			func(v mirror.Stats) float64 { return float64(v.Articles) }),
		gauge("millrace_mirror_sources", "Single sources that the mirror keeps current.",
			func(v mirror.Stats) float64 { return float64(v.Sources) }),
		gauge("millrace_mirror_folded_seq", "Stream sequence up to which the mirror has counted.",
			func(v mirror.Stats) float64 { return float64(v.Folded) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "millrace_mirror_loads_total",
			Help: "How often the mirror was loaded as a whole; more than once means that messages were missed.",
		}, func() float64 { return float64(s.mirror.Stats().Loads) }))
}

// Register adds the routes to a server, for callers with the scope read.
func (s *Service) Register(api endpoint.API) {
	api = api.At("", "Views")
	api.Limit, api.Took, api.Errors = s.cfg.QueryTimeout, s.durations, []int{}
	api.Known = func(err error) error { return s.problem(err) }
	reads.Get(api, s, "funnel", "/funnel",
		"The funnel of a window: events and distinct articles by stage", s.getFunnel)
	reads.Get(api, s, "stats", "/stats",
		"What a window's events carry, and how long articles take", s.getStats)
	reads.Get(api, s, "drift", "/stats/drift",
		"Model versions, and whether their classifications drift", s.getDrift)
	reads.GetFile(
		api, s, "funnel-sources-export", "/funnel/sources/export", "Sources of the event stream as a file",
		reads.ContentTypes(), s.exporting, s.exportSources,
	)
	reads.Get(api, s, "funnel-sources", "/funnel/sources", "Names of sources in the event stream, by number of events",
		s.sources)
	s.events.Register(api)
}

// Views are the live views of the pipeline.
func (s *Service) Views() []live.View {
	return []live.View{s.funnelView(), lagView(s.deps.JetStream, s.mirror)}
}

// Positions returns how far each slot group is in what this process answers from; none
// while that is not loaded.
func (s *Service) Positions() []lag.Position { return s.mirror.GroupPositions() }

// Run keeps the mirror current until ctx ends. Live views are to be served for as
// long at most.
func (s *Service) Run(ctx context.Context) error {
	return s.mirror.Run(ctx, s.deps.NATS, s.deps.JetStream)
}

// Checks are what /ready asks after, beside NATS.
func (s *Service) Checks() []httpapi.Check {
	return []httpapi.Check{
		{Name: "clickhouse", Probe: s.store.Ping},
		{Name: "funnel", Probe: func(context.Context) error { return s.mirror.Err() }},
		{Name: "checkpoints", Probe: func(context.Context) error { return s.mirror.Damage() }},
		{Name: "projector", Probe: s.streamEnd.check, Note: s.streamEnd.note},
		{Name: "rows", Probe: s.rowsAreThere, Need: httpapi.Never},
		s.gapCheck(),
	}
}
