package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Consumer is the name of the durable consumer on SOURCES.
const Consumer = "jobs"

// Config shapes the service. The zero value of a field stands for its default.
type Config struct {
	// ReconcileEvery is how often sources and jobs are compared; default 5 minutes.
	ReconcileEvery time.Duration
}

// Deps are what the service needs. The connections are the caller's.
type Deps struct {
	NATS     *nats.Conn
	Store    *jobs.Store
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Service has jobs follow their sources. Any number of processes may run one.
type Service struct {
	cfg     Config
	js      jetstream.JetStream
	store   *jobs.Store
	lead    *leader.Candidate
	metrics *metrics
	log     *slog.Logger
}

// reconciler names the lock of the process that compares sources with jobs.
const reconciler int64 = 0x6d696c6c_6a6f6273

// New returns the service and starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.NATS == nil || deps.Store == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("jobs: NATS, a store, a registry and a logger are needed")
	}
	if cfg.ReconcileEvery == 0 {
		cfg.ReconcileEvery = 5 * time.Minute
	}
	js, err := jetstream.New(deps.NATS)
	if err != nil {
		return nil, err
	}
	log := deps.Log.With("component", "jobs")
	lead, err := leader.New(leader.Config{Name: "the reconciliation of jobs", Key: reconciler}, deps.Store.Pool(), log)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, js: js, store: deps.Store, lead: lead, metrics: m, log: log}, nil
}

// Run applies events until ctx ends. It outlives servers that are away.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{s.consume, s.handOver, func(ctx context.Context) error {
		return s.lead.Run(ctx, func(ctx context.Context, _ leader.Term) error { return s.keepUp(ctx) })
	}} {
		g.Go(func() error { return part(ctx) })
	}
	return g.Wait()
}

// ackWait is how long a process may work on an event before another one gets it.
const ackWait = 5 * time.Second

// consumer makes the durable consumer, or finds it.
func (s *Service) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, ackWait)
	defer cancel()
	c, err := s.js.CreateOrUpdateConsumer(ctx, stream.Sources, jetstream.ConsumerConfig{
		Durable: Consumer, Description: "has jobs follow their sources", DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: 20 * block, MaxDeliver: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("make the consumer %s of %s: %w", Consumer, stream.Sources, err)
	}
	return c, nil
}

var backoff = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// consume applies what comes, until ctx ends.
func (s *Service) consume(ctx context.Context) error {
	for ctx.Err() == nil {
		_ = backoff.Do(ctx, func() error {
			c, err := s.consumer(ctx)
			if err != nil {
				return err
			}
			return s.follow(ctx, c)
		}, func(err error, wait time.Duration) {
			s.log.Warn("events of sources are not read, trying again", "error", err, "retry_in", wait)
		})
	}
	return nil
}

// follow applies what a consumer gets, until that fails or ctx ends.
func (s *Service) follow(ctx context.Context, c jetstream.Consumer) error {
	for ctx.Err() == nil {
		batch, err := c.FetchNoWait(block)
		if err != nil {
			return err
		}
		n, err := s.take(ctx, batch)
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		if batch, err = c.Fetch(1, jetstream.FetchMaxWait(time.Second)); err != nil { // waits for the next
			return err
		}
		if _, err := s.take(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// take applies a block of messages, and returns how many there were.
func (s *Service) take(ctx context.Context, batch jetstream.MessageBatch) (int, error) {
	var all []jetstream.Msg
	for m := range batch.Messages() {
		all = append(all, m)
	}
	if len(all) > 0 {
		s.apply(ctx, all)
	}
	return len(all), batch.Error()
}

// handOverEvery is how often the service looks for settings that lists of sources have given.
const handOverEvery = time.Second

// handOver hands to jobs the settings that lists of sources have given them, until ctx ends.
func (s *Service) handOver(ctx context.Context) error {
	for ctx.Err() == nil {
		n := 0
		_ = backoff.Do(ctx, func() (err error) {
			n, err = s.store.Settle(ctx)
			return err
		}, func(err error, wait time.Duration) {
			s.log.Warn("jobs do not get the settings of imported sources, trying again", "error", err, "retry_in", wait)
		})
		if n > 0 {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(handOverEvery):
		}
	}
	return nil
}

// keepUp mends and forgets, while this process leads.
func (s *Service) keepUp(ctx context.Context) error {
	for {
		done, err := s.store.Reconcile(ctx, false)
		for _, d := range done {
			s.log.Warn("a source and its job differed", "action", d.Action, "source_id", d.SourceID, "source_name",
				d.SourceName)
		}
		if err = errors.Join(err, s.store.Forget(ctx)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.cfg.ReconcileEvery):
		}
	}
}
