package scheduler

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/internal/userqueue"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return queue.Text(texts, name) }

// withPriorities completes a statement that reads the jobs of each priority.
func withPriorities(name string) string {
	return strings.ReplaceAll(text(name), "{priorities}", text("priorities"))
}

var (
	sqlDue     = withPriorities("due")
	sqlNextDue = withPriorities("next_due")
)

// Queue is the queue whose items are runs.
const Queue = "crawl"

// KeyPrefix begins the keys of items that are runs; the id of the run follows.
const KeyPrefix = "run:"

// Config shapes a scheduler. The zero value of a field stands for its default.
type Config struct {
	Every time.Duration // between two looks for jobs that are due, at most; default 50 ms
	Batch int           // jobs that one transaction decides about; default 500
	Page  int           // due times of a job that one transaction decides about; default 500
}

// Deps are what a scheduler needs.
type Deps struct {
	Queues   *userqueue.Store
	Tracer   trace.Tracer // has a trace for each run; nil: nothing is traced
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Scheduler runs jobs when they are due.
type Scheduler struct {
	cfg      Config
	queues   *userqueue.Store
	tracer   trace.Tracer
	log      *slog.Logger
	metrics  *metrics
	compiled *lru.Cache[schedule.Spec, *schedule.Recurring] // of expressions
	zones    *lru.Cache[string, *time.Location]
}

// New checks what it is given and starts nothing.
func New(cfg Config, deps Deps) (*Scheduler, error) {
	if deps.Queues == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("scheduler: the queues, a registry and a logger are needed")
	}
	cfg.Every = cmp.Or(cfg.Every, 50*time.Millisecond)
	cfg.Batch = cmp.Or(cfg.Batch, 500)
	cfg.Page = cmp.Or(cfg.Page, 500)
	if cfg.Every < 0 || cfg.Batch < 0 || cfg.Page < 0 {
		return nil, errors.New("scheduler: Every, Batch and Page must be positive")
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	compiled, err := lru.New[schedule.Spec, *schedule.Recurring](10_000)
	if err != nil {
		return nil, err
	}
	zones, err := lru.New[string, *time.Location](1000)
	if err != nil {
		return nil, err
	}
	return &Scheduler{
		cfg: cfg, queues: deps.Queues, tracer: deps.Tracer, log: deps.Log.With("component", "scheduler"), metrics: m,
		compiled: compiled, zones: zones,
	}, nil
}

// Run schedules until ctx ends. While the database is away it tries again.
func (s *Scheduler) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		made := false // workers look for the queue before there is a run
		s.repeat(ctx, "look for jobs that are due", func(ctx context.Context) (wait time.Duration, err error) {
			if !made {
				if err := s.MakeQueue(ctx); err != nil {
					return 0, err
				}
			}
			wait, err = s.look(ctx)
			made = !errors.Is(err, queue.ErrNoQueue) // somebody has deleted it
			return wait, err
		})
		return nil
	})
	g.Go(func() error {
		s.repeat(ctx, "cancel the runs of stopped jobs", inTurns(4*s.cfg.Every, s.Stop)) // no worker waits for it
		return nil
	})
	g.Go(func() error { s.repeat(ctx, "follow runs", inTurns(s.cfg.Every, s.Follow)); return nil })
	g.Go(func() error {
		s.repeat(ctx, "look for unnoted changes of runs", func(ctx context.Context) (time.Duration, error) {
			return mendEvery, s.Mend(ctx)
		})
		return nil
	})
	return g.Wait()
}

// inTurns repeats a step at once while there is more to do, and otherwise after an interval.
func inTurns(
	every time.Duration, step func(context.Context) (more bool, err error),
) func(context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) {
		if more, err := step(ctx); more || err != nil {
			return 0, err
		}
		return every, nil
	}
}

// look dispatches a batch and returns how long to wait for the next. After a full one,
// three transactions at a time dispatch until nothing is due: while one waits for the
// disk and another for this process, the third one works.
func (s *Scheduler) look(ctx context.Context) (wait time.Duration, err error) {
	if wait, err = s.dispatch(ctx); wait > 0 || err != nil {
		return wait, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for range 3 {
		g.Go(func() error {
			for ctx.Err() == nil {
				if wait, err := s.dispatch(ctx); wait > 0 || err != nil {
					return err
				}
			}
			return nil
		})
	}
	return s.cfg.Every / 5, g.Wait()
}

// repeat does something again and again, and waits in between as long as it says.
func (s *Scheduler) repeat(
	ctx context.Context, what string, do func(context.Context) (wait time.Duration, err error),
) {
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for ctx.Err() == nil {
		wait, err := do(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			if wait = 20 * s.cfg.Every; loop.Failed(err) {
				s.log.Error("cannot "+what+"; trying again", "error", err)
			}
		case err == nil && loop.Well():
			s.log.Info("can " + what + " again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// MakeQueue makes the queue of runs unless it is there, whatever its settings.
func (s *Scheduler) MakeQueue(ctx context.Context) error {
	const lease, keep = 5 * time.Minute, 24 * time.Hour
	_, err := s.queues.Create(ctx, queue.Settings{
		Name: Queue, MaxAttempts: 1, LeaseS: lease.Seconds(), RetentionS: keep.Seconds(), MaxItems: 1_000_000,
	})
	if err != nil && !errors.Is(err, userqueue.ErrDiffers) {
		return fmt.Errorf("make the queue of runs: %w", err)
	}
	return nil
}

// recurring reads a schedule.
func (s *Scheduler) recurring(spec schedule.Spec) (*schedule.Recurring, error) {
	if r, ok := s.compiled.Get(spec); ok {
		return r, nil
	}
	r, broken := spec.Compile()
	if broken != nil {
		return nil, fmt.Errorf("its schedule: %w", &broken[0])
	}
	if spec.Cron != "" {
		s.compiled.Add(spec, r)
	}
	return r, nil
}

func (s *Scheduler) zone(name string) (*time.Location, error) {
	if z, ok := s.zones.Get(name); ok {
		return z, nil
	}
	z, err := schedule.Zone(name)
	if err != nil {
		return nil, fmt.Errorf("the zone of its crawl window %w", err)
	}
	s.zones.Add(name, z)
	return z, nil
}
