package enrichment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/stream"
)

// DefaultTimeout is how long an analyser may take for a request.
const DefaultTimeout = 10 * time.Second

// Config says how items are enriched.
type Config struct {
	// Analyse has an analyser asked, beside the formulas.
	Analyse bool
	// Timeout is how long an analyser may take for a request; default DefaultTimeout.
	Timeout time.Duration
}

// Deps are what the service needs. The connections are the caller's.
type Deps struct {
	NATS       *nats.Conn
	ClickHouse *clickhouse.Options
	Postgres   *pgxpool.Pool // has the lock of who enriches
	Registry   prometheus.Registerer
	Log        *slog.Logger
}

// lockKey names the lock of the process that enriches.
const lockKey int64 = 0x6d696c6c_656e7263

// Service enriches items. Any number of processes may run one; one of them works at a time.
type Service struct {
	cfg      Config
	deps     Deps
	js       jetstream.JetStream
	lead     *leader.Candidate
	analyser *analyser
	metrics  *metrics
	look     time.Duration // between two looks whether analyses were deleted
	log      *slog.Logger
}

// New returns the service and starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if deps.NATS == nil || deps.ClickHouse == nil || deps.Postgres == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("enrichment: NATS, ClickHouse, Postgres, a registry and a logger are needed")
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("enrichment: invalid timeout %s: want a time above 0", cfg.Timeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	s := &Service{cfg: cfg, deps: deps, look: lookEvery, log: deps.Log.With("component", "enrichment")}
	var err error
	if s.js, err = jetstream.New(deps.NATS); err != nil {
		return nil, err
	}
	if s.lead, err = leader.New(leader.Config{Name: "enrichment", Key: lockKey}, deps.Postgres, s.log); err != nil {
		return nil, err
	}
	if s.metrics, err = newMetrics(deps.Registry); err != nil {
		return nil, err
	}
	s.analyser = newAnalyser(deps.NATS, cfg.Timeout, s.metrics, s.log)
	return s, nil
}

var backoff = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// Run enriches until ctx ends. It outlives servers that are away.
func (s *Service) Run(ctx context.Context) error {
	return s.lead.Run(ctx, func(ctx context.Context, _ leader.Term) error {
		return backoff.Keep(ctx, s.session, retry.WarnWait(s.log, "items are not enriched, trying again"))
	})
}

// asked is 1 when an analyser is asked, which rows say.
func (s *Service) asked() uint8 {
	if s.cfg.Analyse {
		return 1
	}
	return 0
}

// idle is how long to wait until it is asked again what is stored.
const idle = 500 * time.Millisecond

// session enriches for as long as nothing fails.
func (s *Service) session(ctx context.Context) error {
	opts, cut := dbpool.Cuttable(s.deps.ClickHouse)
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, cut)()
	return s.follow(ctx, tables{conn})
}

// lookEvery is how often it is looked whether somebody has deleted analyses, to have them made again.
const lookEvery = 15 * time.Second

// follow enriches what comes behind the last sequence that the table has.
func (s *Service) follow(ctx context.Context, t tables) error {
	last, err := t.number(ctx, "position", s.asked())
	if err != nil {
		return err
	}
	at, looked := before(last), time.Now()
	for ctx.Err() == nil {
		if time.Since(looked) >= s.look {
			now, err := t.number(ctx, "position", s.asked())
			if err != nil {
				return err
			}
			if now < last {
				s.log.Info("analyses were deleted, and are made again", "behind", now)
				at = before(now)
			}
			last, looked = now, time.Now()
		}
		stored, err := s.stored(ctx)
		if err != nil {
			return err
		}
		if stored > at {
			end, written, err := s.step(ctx, t, at, stored, last)
			switch {
			case errors.Is(err, errDeleted):
				looked = time.Time{}
			case err != nil:
				return err
			default:
				at, last = end, max(last, written)
				retry.Well(ctx)
			}
			continue
		}
		retry.Well(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(idle):
		}
	}
	return nil
}

// before is the last sequence that is done for certain, of the last one that the table has (invariant 2).
func before(last uint64) uint64 { return max(last, 1) - 1 }

// stored is the sequence up to which all outcomes are stored.
func (s *Service) stored(ctx context.Context) (uint64, error) {
	kv, err := s.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return 0, fmt.Errorf("open the bucket %s: %w", stream.Checkpoints, err)
	}
	entry, err := kv.Get(ctx, stream.BatchesCheckpoint)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the position of the projector: %w", err)
	}
	r, err := checkpoint.Parse[struct{}](entry.Value())
	return r.From, err
}

// errDeleted is the error of a step meanwhile somebody has deleted analyses. It writes nothing: rows of a higher sequence would
// hide what is missing before them.
var errDeleted = errors.New("analyses were deleted")

// step enriches what comes next behind a position, and returns the position behind that, and the last sequence that it has
// written rows of; 0: there are none. There were rows up to last.
func (s *Service) step(ctx context.Context, t tables, at, stored, last uint64) (end, written uint64, err error) {
	if end, err = t.end(ctx, at, stored); err != nil {
		return at, 0, err
	}
	items, err := t.read(ctx, at, end)
	if err != nil || len(items) == 0 {
		return end, 0, err
	}
	found := make([]analysis, len(items))
	if s.cfg.Analyse {
		if found, err = s.analyser.analyseAll(ctx, items); err != nil {
			return at, 0, err
		}
	}
	now, err := t.number(ctx, "position", s.asked())
	if err == nil && now < last {
		err = errDeleted
	}
	if err == nil {
		err = t.write(ctx, items, found, s.asked())
	}
	if err != nil {
		return at, 0, err
	}
	s.metrics.stored(found)
	return end, items[len(items)-1].seq, nil
}
