package work

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/projector/work/pulls"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Config shapes a service. The zero value of a field stands for its default.
type Config struct {
	// Poll is how often the leader reads the outbox for entries of other
	// processes; default 100 ms. It reads those of this process at once.
	Poll time.Duration
	// Streams shape the streams and consumers, which the service makes.
	Streams stream.WorkConfig
	// MendEvery is the least time between two comparisons of the stream with
	// Postgres; default 300 ms. They take a twentieth of the time at most.
	MendEvery time.Duration
}

func (c Config) withDefaults() Config {
	c.Poll = cmp.Or(c.Poll, 100*time.Millisecond)
	c.Streams.AckWait = cmp.Or(c.Streams.AckWait, 30*time.Second)
	c.MendEvery = cmp.Or(c.MendEvery, 300*time.Millisecond)
	return c
}

// Deps are what a service needs. The connections are the caller's.
type Deps struct {
	NATS     *nats.Conn
	Store    *queue.Store
	Handout  *handout.Handout
	Shards   *tracking.Store // what reports of shards go to
	Tracer   trace.Tracer    // has spans for reports that are traced; nil: nothing is traced
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Service keeps the stream and Postgres in step. Any number of processes may
// run one: all answer clients, one at a time does the rest.
type Service struct {
	cfg     Config
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *queue.Store
	handout *handout.Handout
	shards  *tracking.Store
	lead    *leader.Candidate
	pulls   *pulls.Service
	leases  leases
	tracer  trace.Tracer
	log     *slog.Logger
	metrics *metrics
}

// New returns a service and starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.NATS == nil || deps.Store == nil || deps.Handout == nil || deps.Shards == nil || deps.Log == nil ||
		deps.Registry == nil {
		return nil, errors.New("work: NATS, the stores, a handout, a registry and a logger are needed")
	}
	js, err := jetstream.New(deps.NATS)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	log := deps.Log.With("component", "work")
	lead, err := leader.New(leader.Config{Name: "work queues", Key: lockKey}, deps.Store.Pool(), log)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Service{
		cfg: cfg, nc: deps.NATS, js: js, store: deps.Store, handout: deps.Handout, shards: deps.Shards,
		lead: lead, tracer: deps.Tracer, log: log, metrics: m,
	}
	s.pulls, err = pulls.New(deps.NATS, s.leases.of(cfg), deps.Log)
	return s, err
}

// requestWait bounds one request to a server: when a connection is lost, the answer
// never comes.
const requestWait = 3 * time.Second

// Run works until ctx ends. It outlives servers that are away.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.answerMoves(ctx) })
	g.Go(func() error { return s.pulls.Run(ctx) })
	g.Go(func() error { return s.leases.follow(ctx, s.cfg, s.store) })
	g.Go(func() error { return s.lead.Run(ctx, s.leading) })
	return g.Wait()
}

// session is the time in which this process is the leader, the only one that publishes.
type session struct {
	*Service
	blocks  *blocks
	term    leader.Term
	plain   *Answers
	answers atomic.Uint64 // sequence up to which answers are applied
	// still is held by the relay while it publishes, and by a comparison while
	// it looks at the stream.
	still  sync.Mutex
	grown  chan struct{} // a token when the answers' position has moved
	first  uint64        // of the stream, at the last comparison
	broker brokerClock
	// orphans are noted by comparisons, and by what reads answers.
	orphans orphans
	// refused are messages that the client or HTTP gave back, since their items
	// could not be started: uint64 → the consumer's name. watch forgets them.
	refused sync.Map
	// floors are the sequences up to which the server has done with all messages of a
	// queue, as watch has last seen: queue.ID → uint64.
	floors sync.Map
	// settings are those of all queues, as they were read last.
	settings atomic.Pointer[[]queue.Settings]
	// names of queues by their numbers, also of those that were deleted in this term:
	// queue.ID → string.
	names sync.Map
	// offers are entries of the outbox that are left to somebody: queue.ID → *offers.
	offers sync.Map
	// pausing is held while consumers are paused or resumed.
	pausing sync.Mutex
}
