package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
)

// Deps are what a Fold needs. All are the caller's.
type Deps struct {
	Input Input
	Lease Lease
	// Pulse is where the fold notes that it has renewed the lease; default one of
	// its own.
	Pulse *Pulse
	// Tracer has spans for messages that are traced; nil: nothing is traced.
	Tracer trace.Tracer
	Log    *slog.Logger
}

// Fold folds an input into one view, for one session: from having taken the
// lease to giving it up.
type Fold[B any] struct {
	cfg     Config
	deps    Deps
	sink    Sink[B]
	keeper  keeper
	log     *slog.Logger
	reader  atomic.Pointer[Reader]
	partial bool // of the input
	machine machine
	folder  folder[B]
	durable atomic.Uint64 // up to here everything is stored
	took    atomic.Int64  // the time in which a batch becomes durable: the shorter of the last two
	before  time.Duration // what the last one took; of the flusher

	sealed chan sealed[B] // from the folder to the flusher
	idle   chan struct{}  // the flusher waits for a batch
}

// New returns a fold and starts nothing.
func New[B any](cfg Config, deps Deps, sink Sink[B]) (*Fold[B], error) {
	if deps.Input == nil || deps.Lease == nil || deps.Log == nil {
		return nil, errors.New("fold: an input, a lease and a logger are needed")
	}
	cfg = cfg.withDefaults()
	if deps.Pulse == nil {
		deps.Pulse = NewPulse()
	}
	return &Fold[B]{
		cfg: cfg, deps: deps, sink: sink, log: deps.Log,
		keeper:  keeper{lease: deps.Lease, time: cfg.Lease, pulse: deps.Pulse, failing: sink.Failing},
		machine: machine{log: deps.Log},
		sealed:  make(chan sealed[B]), idle: make(chan struct{}, 1),
	}, nil
}

// Run folds until ctx ends, the lease is lost, something fails, or everything up
// to the last sequence is folded; then it returns nil. What it has begun it
// completes within the grace, and then it releases the lease. A Fold runs once.
func (f *Fold[B]) Run(ctx context.Context) error {
	f.keeper.began = time.Now()
	reader, err := f.recover(ctx)
	if err != nil {
		return f.giveUp(ctx, err)
	}
	defer reader.Close()
	f.log.Info("folding", "position", f.durable.Load())

	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(f.cfg.Grace, cancel) })()

	parts, gctx := errgroup.WithContext(work)
	stop, stopReading := context.WithCancel(gctx)
	defer stopReading()
	defer context.AfterFunc(ctx, stopReading)()
	chunks := make(chan []Message)
	parts.Go(func() error { defer close(chunks); return f.read(stop, reader, chunks) })
	parts.Go(func() error { defer close(f.sealed); defer stopReading(); return f.fold(gctx, chunks) })
	parts.Go(func() error { return f.flush(gctx) })
	err = parts.Wait()
	if err == nil {
		err = f.deps.Lease.Release(work)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// releaseWithin bounds giving up the lease when nothing else is left to do.
const releaseWithin = 2 * time.Second

// giveUp releases the lease when ctx has ended before the fold could begin, so
// that the next owner need not wait until the lease is over.
func (f *Fold[B]) giveUp(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
	defer cancel()
	if failed := f.deps.Lease.Release(release); failed != nil {
		f.log.Debug("the lease is not released, and will end by itself", "error", failed)
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// recover brings the view to the position, and opens the input behind it.
func (f *Fold[B]) recover(ctx context.Context) (Reader, error) {
	r := &recovery[B]{
		cfg: f.cfg, keeper: &f.keeper, sink: f.sink, machine: &f.machine, log: f.log,
		history: history{input: f.deps.Input, leaderLag: f.cfg.LeaderLag, log: f.log},
	}
	if err := r.run(ctx); err != nil {
		return nil, err
	}
	f.durable.Store(r.from)
	f.folder = folder[B]{
		view: r.view, from: r.from, position: r.from, until: r.to, whole: r.whole, last: r.last,
	}
	if f.machine.state == Completing {
		f.log.Info("completing the batch that was under way", "from", r.from, "to", r.to)
	}
	if f.cfg.Upto > 0 {
		f.log.Info("folding up to a last sequence", "from", r.from, "upto", f.cfg.Upto)
	}
	// When the decided batch has lost its last message, the one before may be one that the view does not need.
	reader := f.deps.Input.Open(r.from, r.to > r.from && r.whole < r.to, r.known())
	f.partial = r.partial
	f.reader.Store(&reader)
	return reader, nil
}

// read hands chunks of messages to the folder until ctx ends.
func (f *Fold[B]) read(ctx context.Context, reader Reader, chunks chan<- []Message) error {
	for {
		ms, err := reader.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return lost(f.deps.Input, f.durable.Load(), err)
		}
		select {
		case chunks <- ms:
		case <-ctx.Done():
			return nil
		}
	}
}

// Reached tells whether everything up to a sequence is durable. It may be called
// at any time.
func (f *Fold[B]) Reached(seq uint64) bool {
	durable, reader := f.durable.Load(), f.reader.Load()
	if durable >= seq {
		return true
	}
	if reader == nil {
		return false
	}
	last, upTo := (*reader).CaughtUp()
	return last <= durable && upTo >= seq
}

// Durable returns up to where everything is durable. It may be called at any
// time.
func (f *Fold[B]) Durable() uint64 { return f.durable.Load() }
