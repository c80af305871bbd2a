package batches

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/ordered"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// Bounds of memory.
const (
	// maxWaiting is how many messages may wait in memory. Further ones wait on the stream.
	maxWaiting = 500_000
	// keepBytes is how large those are that are kept, and not fetched again.
	keepBytes = 16 << 20
	// largeContent is the size of content of which one is processed at a time: what was read of
	// it is in memory several times.
	largeContent = 8 << 20
)

// ReadersConfig shapes the readers. The zero value of a field stands for its default.
type ReadersConfig struct {
	// MaxConcurrent is how many batches are read at once; default 5. One bucket has at most
	// half of them, rounded up.
	MaxConcurrent int
	// Patience is how long an object may be missing, or change whenever it is read, from the
	// first attempt on; default 5 minutes.
	Patience time.Duration
	// Keys finds which batch an object holds that a notification is about, where its metadata does
	// not say; default schema.DefaultKeyPattern.
	Keys schema.KeyPattern
}

// ReadersDeps are what the readers need. The connections are the caller's.
type ReadersDeps struct {
	JetStream jetstream.JetStream
	Postgres  *pgxpool.Pool
	Storage   objects.Storage
	Modes     *Modes
	Tracer    trace.Tracer // has spans for batches that are traced; nil: nothing is traced
	Registry  prometheus.Registerer
	Log       *slog.Logger
}

// Readers read batches. Any number of processes may have them; those of one read at a time.
type Readers struct {
	cfg     ReadersConfig
	deps    ReadersDeps
	js      jetstream.JetStream
	lead    *leader.Candidate
	metrics *metrics
	large   chan struct{} // is held by who processes large content
	log     *slog.Logger
}

// readersKey names the lock of the process that reads.
const readersKey int64 = 0x6d696c6c_62726561

// NewReaders returns the readers and starts nothing.
func NewReaders(cfg ReadersConfig, deps ReadersDeps) (*Readers, error) {
	if deps.JetStream == nil || deps.Postgres == nil || deps.Storage == nil || deps.Modes == nil ||
		deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("batches: JetStream, Postgres, a storage, modes, a registry and a logger are needed")
	}
	if cfg.MaxConcurrent < 0 || cfg.MaxConcurrent > 1000 {
		return nil, fmt.Errorf("invalid number of batches that are read at once %d: want 1 to 1000", cfg.MaxConcurrent)
	}
	if cfg.MaxConcurrent == 0 {
		cfg.MaxConcurrent = 5
	}
	if cfg.Patience == 0 {
		cfg.Patience = 5 * time.Minute
	}
	if cfg.Keys == (schema.KeyPattern{}) {
		var err error
		if cfg.Keys, err = schema.ParseKeyPattern(schema.DefaultKeyPattern); err != nil {
			return nil, err
		}
	}
	log := deps.Log.With("component", "batch readers")
	lead, err := leader.New(leader.Config{Name: "batch readers", Key: readersKey}, deps.Postgres, log)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	return &Readers{
		cfg: cfg, deps: deps, js: deps.JetStream, lead: lead, metrics: m, large: make(chan struct{}, 1), log: log,
	}, nil
}

var backoff = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// Run reads batches until ctx ends. It outlives servers that are away.
func (r *Readers) Run(ctx context.Context) error {
	failed := retry.WarnWait(r.log, "batches are not read, trying again")
	if backoff.Do(ctx, func() error { return r.deps.Modes.begin(ctx) }, failed) != nil {
		return nil // ctx has ended
	}
	return r.lead.Run(ctx, func(ctx context.Context, _ leader.Term) error {
		return backoff.Keep(ctx, r.session, failed)
	})
}

// errModes ends a scan whose modes are those of before.
var errModes = errors.New("the modes have changed")

// session reads for as long as nothing fails. When the modes change it looks at all
// messages again.
func (r *Readers) session(ctx context.Context) error {
	for {
		if err := r.scan(ctx); !errors.Is(err, errModes) {
			return err
		}
	}
}

// scan reads the messages of the stream whose mode is on, those that are there and those
// that come.
func (r *Readers) scan(ctx context.Context) error {
	st, err := r.js.Stream(ctx, stream.Batches)
	if err != nil {
		return fmt.Errorf("open the stream %s: %w", stream.Batches, err)
	}
	modes, err := r.deps.Modes.Get(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	found := make(chan entry)
	g.Go(func() error {
		return r.deps.Modes.watch(ctx, func(now schema.Modes) error {
			if now != modes {
				return errModes
			}
			return nil
		})
	})
	g.Go(func() error { return r.find(ctx, modes, found) })
	next := newStages(r, st)
	g.Go(func() error { return next.run(ctx) })
	g.Go(func() error { return r.dispatch(ctx, st, found, next) })
	return g.Wait()
}

// find sends the messages whose mode is on, in the order of the stream.
func (r *Readers) find(ctx context.Context, modes schema.Modes, found chan<- entry) error {
	return ordered.Read(ctx, r.js, stream.Batches, findAtOnce, func(ctx context.Context, msgs []jetstream.Msg) error {
		for _, m := range msgs {
			about, err := m.Metadata()
			if err != nil {
				return err
			}
			what := newMessage(m.Subject(), about.Timestamp, m.Headers(), m.Data())
			if what.broken == nil && !modes.Take(what.about) {
				continue
			}
			e := entry{seq: about.Sequence.Stream, bucket: what.about.Object.Bucket, message: what}
			if err := send(ctx, found, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// findAtOnce is how many messages are looked at together. They may be large.
const findAtOnce = 20

// result is what became of an attempt.
type result struct {
	entry
	within context.Context // with the span of the attempt, for what is logged
	err    error
}

// dispatch has messages read when it is their turn. It returns when none is being read.
func (r *Readers) dispatch(ctx context.Context, st jetstream.Stream, found <-chan entry, next *stages) error {
	waiting := &lines{perBucket: (r.cfg.MaxConcurrent + 1) / 2, keep: keepBytes}
	results := make(chan result)
	timer := time.NewTimer(0)
	defer timer.Stop()
	running := 0
	for {
		if due := waiting.due(time.Now()); !due.IsZero() {
			timer.Reset(time.Until(due))
		}
		for running < r.cfg.MaxConcurrent && ctx.Err() == nil {
			e, ok := waiting.next()
			if !ok {
				break
			}
			running++
			go func() { results <- r.attempt(ctx, st, e, next) }()
		}
		in, end := found, ctx.Done()
		if waiting.waiting >= maxWaiting {
			in = nil
		}
		if ctx.Err() != nil {
			if running == 0 {
				return ctx.Err()
			}
			in, end = nil, nil
		}
		select {
		case e := <-in:
			waiting.add(e)
		case done := <-results:
			running--
			waiting.done(done.bucket)
			if done.err != nil && ctx.Err() == nil {
				r.again(waiting, done)
			}
		case failed := <-next.failed:
			r.again(waiting, failed)
		case <-timer.C:
		case <-end:
		}
	}
}

// Waits between attempts at a message.
const (
	firstWait = time.Second
	maxWait   = 30 * time.Second
)

// again has a message taken again after a while.
func (r *Readers) again(waiting *lines, failed result) {
	e := failed.entry
	if e.tries == nil {
		e.tries = &tries{first: time.Now()}
	}
	wait := min(firstWait<<min(e.tries.failed, 10), maxWait)
	level := slog.LevelDebug
	if e.tries.failed == 0 {
		level = slog.LevelWarn
	}
	e.tries.failed++
	r.log.Log(failed.within, level, "a batch is not read, trying again", "sequence", e.seq, "bucket", e.bucket,
		"error", failed.err, "retry_in", wait)
	waiting.addLater(e, time.Now().Add(wait))
}
