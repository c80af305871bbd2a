package emit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

// Config says what to do with the lines. The zero value of a field stands for
// its default.
type Config struct {
	// NATS is the connection to publish on, which Run leaves open. It should
	// reconnect for ever and have no reconnect buffer; required.
	NATS   *nats.Conn
	Stages event.Stages // required
	// InFlight is the number of batches under way at once; default 4.
	InFlight int
	// Wait bounds how long a batch may go without an acknowledgement, as while
	// NATS is away; default as long as the context lives.
	Wait time.Duration
	// Errors gets the first line that breaks each rule as it comes, and at the end
	// how many lines break which rule; default nowhere.
	Errors io.Writer
	// Rejects gets the text of every rejected line, but for lines many times
	// as long as an event can be; default nowhere.
	Rejects io.Writer
	// Progress is the terminal to draw a progress bar on. Without one, the log
	// gets a line now and then.
	Progress io.Writer
	// Size is the size of the input in bytes, for the bar; 0: unknown.
	Size int64
	// Log gets warnings about retries, and the progress; default none.
	Log *slog.Logger
}

// Report counts what became of the lines.
type Report struct {
	Accepted   int
	Duplicates int
	Rejected   int
	Took       time.Duration
}

// Lines is the number of lines whose fate is known.
func (r Report) Lines() int { return r.Accepted + r.Duplicates + r.Rejected }

func (r Report) String() string {
	rate := float64(r.Lines()) / max(r.Took.Seconds(), 1e-9)
	return fmt.Sprintf("accepted=%d duplicates=%d rejected=%d (%.0f events/s in %s)", r.Accepted, r.Duplicates,
		r.Rejected, rate, r.Took.Round(time.Millisecond))
}

func (c Config) withDefaults() Config {
	if c.InFlight == 0 {
		c.InFlight = 4
	}
	if c.Errors == nil {
		c.Errors = io.Discard
	}
	if c.Rejects == nil {
		c.Rejects = io.Discard
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Run publishes the lines of in. The report holds with an error, too. A Read
// of in that blocks may outlast Run when ctx ends.
func Run(ctx context.Context, in io.Reader, cfg Config) (Report, error) {
	cfg = cfg.withDefaults()
	if cfg.NATS == nil || len(cfg.Stages.Names()) == 0 || cfg.Wait < 0 {
		return Report{}, errors.New(
			"emit: a connection to NATS and the stages are needed, and Wait must not be negative",
		)
	}
	publisher, err := client.New(cfg.NATS, client.Config{InFlight: cfg.InFlight, Log: cfg.Log})
	if err != nil {
		return Report{}, fmt.Errorf("emit: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	e := &emitter{cfg: cfg, publisher: publisher, cancel: cancel, tally: newTally(cfg)}
	start := time.Now()
	err = e.run(ctx, in)
	report, rejectsErr := e.tally.finish()
	report.Took = time.Since(start)
	return report, errors.Join(err, rejectsErr)
}

type emitter struct {
	cfg       Config
	publisher *client.Publisher
	cancel    context.CancelCauseFunc
	tally     *tally
}

// run reads in one goroutine and publishes in several.
func (e *emitter) run(ctx context.Context, in io.Reader) error {
	chunks := make(chan *chunk)
	read := make(chan error, 1)
	go func() {
		defer close(chunks)
		read <- newReader(in, e.cfg.Stages, e.tally).chunks(ctx, chunks)
	}()
	var wg sync.WaitGroup
	for range e.cfg.InFlight {
		wg.Go(func() { e.work(ctx, chunks) })
	}
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("emit: %w", context.Cause(ctx))
	}
	return <-read
}

func (e *emitter) work(ctx context.Context, chunks <-chan *chunk) {
	for {
		select {
		case c, ok := <-chunks:
			if !ok {
				return
			}
			e.publish(ctx, c)
		case <-ctx.Done():
			return
		}
	}
}

func (e *emitter) publish(ctx context.Context, c *chunk) {
	if e.cfg.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, e.cfg.Wait, fmt.Errorf("NATS has been silent for %s", e.cfg.Wait))
		defer cancel()
	}
	outcomes, _ := e.publisher.PublishRaw(ctx, c.msgs) // each outcome has its error
	for i, o := range outcomes {
		switch {
		case o.Status != client.Failed:
		case errors.Is(o.Err, client.ErrTooLarge), errors.Is(o.Err, client.ErrRefused):
			code := "refused"
			if errors.Is(o.Err, client.ErrTooLarge) {
				code = "size"
			}
			e.tally.reject(c.lines[i], c.msgs[i].Data, event.Invalid{Code: code, Rule: o.Err.Error()})
		default:
			e.cancel(fmt.Errorf("line %d is not published: %w", c.lines[i], e.explain(o.Err)))
		}
	}
	e.tally.published(outcomes, c.bytes)
}

// explain adds why the connection was given up, such as a wrong password.
func (e *emitter) explain(err error) error {
	if last := e.cfg.NATS.LastError(); last != nil && errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}
