package backfill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/history"
	"github.com/millrace-io/millrace/schemas/event"
)

// Config says what to backfill. The zero value of a field stands for its
// default.
type Config struct {
	Stages event.Stages // the pipeline; required
	From   time.Time    // rows from then on; default the beginning
	// Until is when rows are left out from, by stage; a stage that it lacks
	// ends with Now.
	Until map[string]time.Time
	Now   time.Time // default the present
	// Batch is how many events are published at once; default 500.
	Batch int
	// InFlight is how many chunks are under way at once; default 4.
	InFlight int
	// Delay is the time from the begin of one chunk to that of the next; default
	// none.
	Delay   time.Duration
	DryRun  bool // only read and judge
	Restart bool // forget the cursor
	// Errors gets a line for each of the first 20 rows that become no event,
	// and then a count; default nowhere.
	Errors io.Writer
	// Progress is the terminal to draw a progress bar on; default none.
	Progress io.Writer
	Log      *slog.Logger // default none
}

// pageRows is how many rows are read at once.
const pageRows = 10_000

func (c Config) withDefaults() Config {
	if c.Now.IsZero() {
		c.Now = time.Now()
	}
	c.Batch = cmp.Or(c.Batch, 500)
	c.InFlight = cmp.Or(c.InFlight, 4)
	if c.Errors == nil {
		c.Errors = io.Discard
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

// Backfill works on one table after another.
type Backfill struct {
	cfg       Config
	publisher *client.Publisher
	cursors   *cursors
}

// New checks the configuration and starts nothing. Without a connection there
// can be dry runs alone.
func New(ctx context.Context, cfg Config, nc *nats.Conn) (*Backfill, error) {
	cfg = cfg.withDefaults()
	if cfg.Batch < 1 || cfg.Batch > 1000 || cfg.InFlight < 1 || cfg.Delay < 0 {
		return nil, errors.New("backfill: Batch must be within 1 and 1000, InFlight at least 1, and Delay not negative")
	}
	if nc == nil {
		if !cfg.DryRun {
			return nil, errors.New("backfill: a connection to NATS is needed")
		}
		return &Backfill{cfg: cfg}, nil
	}
	publisher, err := client.New(nc, client.Config{InFlight: cfg.InFlight, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("backfill: %w", err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("backfill: %w", err)
	}
	saved, err := openCursors(ctx, js, cfg.Log)
	if err != nil {
		return nil, err
	}
	return &Backfill{cfg: cfg, publisher: publisher, cursors: saved}, nil
}

// Run backfills a table. The report holds with an error, too.
func (b *Backfill) Run(ctx context.Context, src *history.Source) (Report, error) {
	for _, stage := range src.Stages {
		if _, ok := b.cfg.Stages.Index([]byte(stage)); !ok {
			return Report{}, fmt.Errorf("backfill %s: the pipeline has no stage %s (MILLRACE_STAGES)", src.Name, stage)
		}
	}
	r := &run{Backfill: b, src: src, tally: newTally(b.cfg, src)}
	start := time.Now()
	err := r.run(ctx)
	report := r.tally.finish()
	report.Took = time.Since(start)
	if err != nil {
		return report, fmt.Errorf("backfill %s: %w", src.Name, err)
	}
	return report, nil
}

// run is the backfill of one table.
type run struct {
	*Backfill
	src   *history.Source
	tally *tally
	next  time.Time // when the next chunk may begin
}

// chunk is a number of events on their way.
type chunk struct {
	msgs   []client.Message
	stages []string
	done   cursor // all that the chunk and those before it complete
	rows   int    // that it completes
	acked  chan error
}

func (r *run) run(ctx context.Context) error {
	span := history.Span{From: r.cfg.From, Until: r.until()}
	at, err := r.start(ctx, span)
	if err != nil {
		return err
	}
	rest := history.Span{From: span.From, Until: span.Until}
	if at.At.After(rest.From) {
		rest.From = at.At
	}
	if err := r.tally.begin(ctx, r.src, rest, at); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	work, order := make(chan *chunk), make(chan *chunk, r.cfg.InFlight)
	g.Go(func() error {
		defer close(work)
		defer close(order)
		return r.read(ctx, span, at, func(c *chunk) bool { return r.pause(ctx, c) && hand(ctx, c, order, work) })
	})
	for range r.cfg.InFlight {
		g.Go(func() error {
			for c := range work {
				c.acked <- r.publish(ctx, c)
			}
			return nil
		})
	}
	g.Go(func() error { return r.commit(ctx, span, order) })
	return g.Wait()
}

// pause waits until a chunk may begin. It returns false when ctx ends first.
func (r *run) pause(ctx context.Context, c *chunk) bool {
	if r.cfg.DryRun || r.cfg.Delay == 0 || len(c.msgs) == 0 {
		return true
	}
	select {
	case <-time.After(time.Until(r.next)):
		r.next = time.Now().Add(r.cfg.Delay)
		return true
	case <-ctx.Done():
		return false
	}
}

// hand puts a chunk into the order of the table, and to work.
func hand(ctx context.Context, c *chunk, queues ...chan<- *chunk) bool {
	for _, q := range queues {
		select {
		case q <- c:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// until is when the last of the table's stages ends.
func (r *run) until() (last time.Time) {
	for _, stage := range r.src.Stages {
		if u := r.untilOf(stage); u.After(last) {
			last = u
		}
	}
	return last
}

func (r *run) untilOf(stage string) time.Time {
	if u, ok := r.cfg.Until[stage]; ok {
		return u
	}
	return r.cfg.Now
}

// start returns where the last run got to. A dry run looks at everything.
func (r *run) start(ctx context.Context, span history.Span) (cursor, error) {
	if r.cfg.DryRun || r.cfg.Restart {
		return cursor{}, nil
	}
	at, err := r.cursors.load(ctx, r.src, span)
	return at.reread(), err
}

// read turns the rows into chunks.
func (r *run) read(ctx context.Context, span history.Span, at cursor, out func(*chunk) bool) error {
	// Rows of the cursor's time are read again, all: package history needs
	// those of one time together.
	after := history.Cursor{At: at.At}
	x := &expansion{run: r, expander: history.NewExpander(r.src.Table), out: out, chunk: r.newChunk(), done: at}
	for {
		rows, err := r.src.Read(ctx, span, after, pageRows)
		if err != nil {
			return err
		}
		for i := range rows {
			if !x.row(&rows[i]) {
				return ctx.Err()
			}
		}
		if len(rows) < pageRows {
			break
		}
		last := rows[len(rows)-1]
		after = history.Cursor{At: last.At, ID: last.ID}
	}
	if !x.flush() {
		return ctx.Err()
	}
	return nil
}

func (r *run) newChunk() *chunk {
	return &chunk{
		msgs: make([]client.Message, 0, r.cfg.Batch), stages: make([]string, 0, r.cfg.Batch),
		acked: make(chan error, 1),
	}
}

func (r *run) publish(ctx context.Context, c *chunk) error {
	if r.cfg.DryRun || len(c.msgs) == 0 {
		return nil
	}
	outcomes, err := r.publisher.PublishRaw(ctx, c.msgs)
	for i, o := range outcomes {
		if errors.Is(o.Err, client.ErrTooLarge) || errors.Is(o.Err, client.ErrRefused) {
			r.tally.reject(c.msgs[i].Subject, o.Err)
			c.stages[i] = "" // no event
			outcomes[i].Err, err = nil, nil
		}
	}
	for _, o := range outcomes {
		if o.Err != nil {
			return o.Err
		}
	}
	return err
}

// A cursor is saved after so many events, or so much time.
const (
	saveEvents = 2000
	saveEvery  = time.Second
)

// commit takes the chunks in the order of the table, and remembers now and
// then how far they have come, and at the end.
func (r *run) commit(ctx context.Context, span history.Span, order <-chan *chunk) error {
	var done, saved cursor
	events, last := 0, time.Now()
	save := func(ctx context.Context) error {
		if r.cfg.DryRun || done == saved {
			return nil
		}
		saved, events, last = done, 0, time.Now()
		return r.cursors.save(ctx, r.src, span, done)
	}
	for c := range order {
		var err error
		select {
		case err = <-c.acked:
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			// What has been acknowledged until now need not be sent again.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = save(ctx)
			return err
		}
		r.tally.published(c)
		done, events = c.done, events+len(c.msgs)
		if events >= saveEvents || time.Since(last) >= saveEvery {
			if err := save(ctx); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return save(ctx)
}
