package fold

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/projector/source"
)

// Deps are what a Fold needs. All are the caller's.
type Deps struct {
	NATS  *nats.Conn
	JS    jetstream.JetStream // on that connection
	Lease Lease
	// Pulse is where the fold notes that it has renewed the lease; default one of
	// its own.
	Pulse *Pulse
	Log   *slog.Logger
}

// Fold folds a stream into one view, for one session: from having taken the
// lease to giving it up.
type Fold[B any] struct {
	cfg     Config
	deps    Deps
	sink    Sink[B]
	keeper  keeper
	log     *slog.Logger
	source  atomic.Pointer[source.Source]
	machine machine
	folder  folder[B]
	durable atomic.Uint64 // up to here everything is stored
	took    atomic.Int64  // the time in which a batch becomes durable: the shorter of the last two
	before  time.Duration // what the last one took; of the flusher

	sealed chan sealed[B] // from the folder to the flusher
	idle   chan struct{}  // the flusher waits for a batch
}

// New checks the configuration and starts nothing.
func New[B any](cfg Config, deps Deps, sink Sink[B]) (*Fold[B], error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
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
	src, err := f.recover(ctx)
	if err != nil {
		return f.giveUp(ctx, err)
	}
	defer src.Close()
	f.log.Info("folding", "position", f.durable.Load())

	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(f.cfg.Grace, cancel) })()

	parts, gctx := errgroup.WithContext(work)
	stop, stopReading := context.WithCancel(gctx)
	defer stopReading()
	defer context.AfterFunc(ctx, stopReading)()
	chunks := make(chan []source.Message)
	parts.Go(func() error { defer close(chunks); return f.read(stop, src, chunks) })
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

// recover brings the view to the position, and opens the source behind it.
func (f *Fold[B]) recover(ctx context.Context) (*source.Source, error) {
	r := &recovery[B]{
		cfg: f.cfg, keeper: &f.keeper, sink: f.sink, machine: &f.machine, log: f.log,
		history: history{js: f.deps.JS, stream: f.cfg.Stream, leaderLag: f.cfg.LeaderLag, log: f.log},
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
	subjects := f.cfg.Subjects
	if r.whole < r.to { // the decided batch has lost its last message, and the one before may be of another subject
		subjects = nil
	}
	src := source.New(source.Config{
		Stream: f.cfg.Stream, Consumer: f.cfg.Consumer, Subjects: subjects, Skips: f.cfg.Skips,
	}, f.deps.NATS, f.deps.JS, r.from, f.log)
	f.source.Store(src)
	return src, nil
}

// read hands chunks of messages to the folder until ctx ends.
func (f *Fold[B]) read(ctx context.Context, src *source.Source, chunks chan<- []source.Message) error {
	for {
		ms, err := src.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return lost(f.cfg.Stream, f.durable.Load(), err)
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
	durable, src := f.durable.Load(), f.source.Load()
	if durable >= seq {
		return true
	}
	if src == nil {
		return false
	}
	last, upTo := src.CaughtUp()
	return last <= durable && upTo >= seq
}

// Durable returns up to where everything is durable. It may be called at any
// time.
func (f *Fold[B]) Durable() uint64 { return f.durable.Load() }
