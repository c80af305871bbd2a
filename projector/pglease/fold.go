package pglease

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/projector/fold"
)

// Config of a Fold.
type Config struct {
	Stream        string // required
	Consumer      string // how the names of its consumers begin, for operators; required
	BatchMessages int    // the most messages of a batch
	// First returns where the fold begins that has no position yet; default: at the
	// start of the stream.
	First func(context.Context) (uint64, error)
}

// Deps are what a Fold needs. All are the caller's.
type Deps struct {
	NATS     *nats.Conn
	JS       jetstream.JetStream // on that connection
	Postgres *pgxpool.Pool
	Tracer   trace.Tracer // has spans for messages that are traced; nil: nothing is traced
	Log      *slog.Logger
}

// Batch is messages, and the position behind them.
type Batch struct {
	Messages []fold.Message
	To       uint64
}

// interval is the least time between two batches: people wait for what they do.
const interval = time.Millisecond

// Fold folds a stream until ctx ends or something fails. A stream that was made anew is
// read from its start. apply stores what the messages of a batch mean, in transactions of
// which the last moves the lease to the position behind them.
func Fold(
	ctx context.Context, cfg Config, deps Deps, apply func(context.Context, *Lease, Batch) error,
) error {
	lease, err := Open(ctx, deps.Postgres, cfg.Stream, cfg.First)
	if err != nil {
		return err
	}
	log := deps.Log.With("stream", cfg.Stream)
	f, err := fold.New(fold.Config{
		Rewind: true, BatchMessages: cfg.BatchMessages, MinInterval: interval, MaxInterval: interval,
	}, fold.Deps{
		Input: fold.NewStream(fold.StreamConfig{
			Stream: cfg.Stream, Consumer: cfg.Consumer, Traces: deps.Tracer != nil,
		}, deps.NATS, deps.JS, log),
		Lease: lease, Tracer: deps.Tracer, Log: log,
	}, &view{lease: lease, apply: apply})
	if err != nil {
		return err
	}
	return f.Run(ctx)
}

// view keeps the messages of the open batch, and nothing of what was applied.
type view struct {
	lease *Lease
	apply func(context.Context, *Lease, Batch) error
	open  []fold.Message
}

// Stored names a message that was read, by which a stream that was made anew is known.
func (v *view) Stored(context.Context) (fold.Stored, error) {
	return fold.Stored{Known: v.lease.known}, nil
}

func (v *view) Open(context.Context, uint64) (fold.View[Batch], error) { return v, nil }

// Failing is never true: a transaction that fails ends the session.
func (v *view) Failing() bool { return false }

func (v *view) Take(m fold.Message) (full bool) {
	v.open = append(v.open, m)
	return false
}

func (v *view) Seal(_ context.Context, cut fold.Cut) (b Batch, digest string, err error) {
	b, v.open = Batch{v.open, cut.To}, nil
	return b, "", nil
}

func (v *view) Write(ctx context.Context, b Batch) error {
	v.lease.read = b.Messages
	return v.apply(ctx, v.lease, b)
}

func (v *view) Announce(context.Context, Batch, time.Duration) {}
