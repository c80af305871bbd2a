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

// Service has jobs follow their sources. Any number of processes may run one; one of
// them folds at a time.
type Service struct {
	cfg     Config
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *jobs.Store
	lead    *leader.Candidate
	metrics *metrics
	log     *slog.Logger
}

// lockKey names the lock of the process that folds events and compares sources with jobs.
const lockKey int64 = 0x6d696c6c_6a6f6273

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
	lead, err := leader.New(leader.Config{Name: "jobs", Key: lockKey}, deps.Store.Pool(), log)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, nc: deps.NATS, js: js, store: deps.Store, lead: lead, metrics: m, log: log}, nil
}

// Run applies events until ctx ends. It outlives servers that are away.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.handOver(ctx) })
	g.Go(func() error { return s.lead.Run(ctx, s.leading) })
	return g.Wait()
}

var backoff = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// leading folds the stream, and does what one process alone does beside that, while this
// process leads.
func (s *Service) leading(ctx context.Context, _ leader.Term) error {
	g, ctx := errgroup.WithContext(ctx)
	for what, part := range map[string]func(context.Context) error{
		"events of sources are not applied": s.follow,
		"sources and jobs are not compared": s.keepUp,
	} {
		g.Go(func() error { return s.persist(ctx, what, part) })
	}
	g.Go(func() error {
		failed := retry.Warn(s.log, "events that wait for their sources are not applied, trying again")
		return retry.Poll{Every: retryEvery, Failed: failed}.Run(ctx, s.applyWaiting)
	})
	return g.Wait()
}

// persist runs a part again whenever it fails, until ctx ends.
func (s *Service) persist(ctx context.Context, what string, part func(context.Context) error) error {
	return backoff.Keep(ctx, part, retry.WarnWait(s.log, what+", trying again"))
}

// block is how many events one transaction applies at most.
const block = 500

// acknowledged returns up to where an earlier release has processed all events, which
// kept its position in a durable consumer. What it has processed behind that changes
// nothing again.
func (s *Service) acknowledged(ctx context.Context) (uint64, error) {
	c, err := s.js.Consumer(ctx, stream.Sources, "jobs")
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read how far events of sources are processed: %w", err)
	}
	return c.CachedInfo().AckFloor.Stream, nil
}

// handOverEvery is how often the service looks for settings that lists of sources have given.
const handOverEvery = time.Second

// handOver hands to jobs the settings that lists of sources have given them, until ctx ends.
func (s *Service) handOver(ctx context.Context) error {
	failed := retry.Warn(s.log, "jobs do not get the settings of imported sources, trying again")
	return retry.Poll{Every: handOverEvery, Failed: failed}.Run(ctx, func(ctx context.Context) (more bool, err error) {
		n, err := s.store.Settle(ctx)
		return n > 0, err
	})
}

// quietEvery is how often the service looks whether events are under way.
const quietEvery = 100 * time.Millisecond

// quiet waits until no events are under way, which account for differences of sources
// and jobs. It does not wait longer than until the next comparison.
func (s *Service) quiet(ctx context.Context) error {
	for end := time.Now().Add(s.cfg.ReconcileEvery); time.Now().Before(end); {
		behind, unpublished, err := s.behind(ctx)
		if err != nil || behind+unpublished == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(quietEvery):
		}
	}
	return nil
}

// keepUp mends and forgets, while this process leads.
func (s *Service) keepUp(ctx context.Context) error {
	for {
		if err := s.quiet(ctx); err != nil {
			return err
		}
		done, err := s.store.Reconcile(ctx, false)
		for _, d := range done {
			s.log.Warn("a source and its job differed", "action", d.Action, "source_id", d.SourceID, "source_name",
				d.SourceName)
		}
		if err = errors.Join(err, s.store.Forget(ctx)); err != nil {
			return err
		}
		retry.Well(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.cfg.ReconcileEvery):
		}
	}
}
