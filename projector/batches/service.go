package batches

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/stream"
)

// lockKey names the lock of the process that stores.
const lockKey int64 = 0x6d696c6c_62617463

// Deps are what the service needs. The connections are the caller's.
type Deps struct {
	NATS       *nats.Conn
	ClickHouse *clickhouse.Options
	Postgres   *pgxpool.Pool
	Registry   prometheus.Registerer
	Tracer     trace.Tracer // has spans for batches that are traced; nil: nothing is traced
	Slow       *dbpool.Slow // is told of slow statements of ClickHouse; nil: nobody is
	Log        *slog.Logger
}

// Service stores what was read of batches. Any number of processes may run one; one of them
// stores at a time.
type Service struct {
	deps    Deps
	js      jetstream.JetStream
	owner   string
	lead    *leader.Candidate
	metrics *metrics
	log     *slog.Logger
}

// New returns the service and starts nothing.
func New(deps Deps) (*Service, error) {
	if deps.NATS == nil || deps.ClickHouse == nil || deps.Postgres == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("batches: NATS, ClickHouse, Postgres, a registry and a logger are needed")
	}
	js, err := jetstream.New(deps.NATS)
	if err != nil {
		return nil, err
	}
	log := deps.Log.With("component", "batches")
	lead, err := leader.New(leader.Config{Name: "batches", Key: lockKey}, deps.Postgres, log)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{deps: deps, js: js, owner: rand.Text(), lead: lead, metrics: m, log: log}, nil
}

var backoff = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// Run stores until ctx ends. It outlives servers that are away.
func (s *Service) Run(ctx context.Context) error {
	return s.lead.Run(ctx, func(ctx context.Context, _ leader.Term) error {
		return backoff.Keep(ctx, s.session, retry.WarnWait(s.log, "what was read of batches is not stored, trying again"))
	})
}

// session stores for as long as nothing fails.
func (s *Service) session(ctx context.Context) error {
	kv, err := s.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open the bucket %s: %w", stream.Checkpoints, err)
	}
	lease, err := fold.OpenLog[struct{}](ctx, kv, stream.BatchesCheckpoint, s.owner, 0)
	if err == nil {
		err = lease.Take(ctx)
	}
	if err != nil {
		return err
	}
	sink, err := openSink(ctx, s)
	if err != nil {
		return err
	}
	defer sink.close()
	in := fold.NewStream(fold.StreamConfig{
		Stream: stream.BatchesRead, Consumer: "batches", Traces: s.deps.Tracer != nil,
	}, s.deps.NATS, s.js, s.log)
	f, err := fold.New(fold.Config{MinInterval: minInterval},
		fold.Deps{Input: in, Lease: lease, Tracer: s.deps.Tracer, Log: s.log}, sink)
	if err != nil {
		return err
	}
	purging, stop := context.WithCancel(ctx)
	defer stop()
	go s.purge(purging, purgeEvery, f.Durable)
	return f.Run(ctx)
}

// minInterval is the least time between two inserts that are not full.
const minInterval = 50 * time.Millisecond

// purgeEvery is how often what is stored is removed from the stream.
const purgeEvery = 10 * time.Second

// purge removes from the stream what is stored, until ctx ends.
func (s *Service) purge(ctx context.Context, every time.Duration, durable func() uint64) {
	purged := uint64(0)
	_ = retry.Every(ctx, every, func(ctx context.Context) error {
		upto := durable()
		if upto <= purged {
			return nil
		}
		st, err := s.js.Stream(ctx, stream.BatchesRead)
		if err != nil {
			return err
		}
		if err := st.Purge(ctx, jetstream.WithPurgeSequence(upto+1)); err != nil {
			return err
		}
		purged = upto
		return nil
	}, retry.Warn(s.log, "what is stored of batches is not removed from the stream, trying again"))
}
