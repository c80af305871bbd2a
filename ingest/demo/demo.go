package demo

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/demo/internal/sample"
	"github.com/millrace-io/millrace/schemas/event"
)

// The history is not in this repository; ARTICLES and SIGHTINGS name its files.
//
//go:generate go run ./internal/makesample -o sample.csv.gz $ARTICLES $SIGHTINGS

//go:embed sample.csv.gz
var sampleFile []byte

// Config shapes the demo. The zero value of a field stands for its default.
type Config struct {
	// Stages is the pipeline; required. The default one is replayed by the
	// rules of news; in another, each sighting enters the first stage, and
	// four fifths of the articles that reach a stage also reach the next.
	Stages event.Stages
	// Pace is the mean number of events per second, from 0.1 to 1,000;
	// default 45. Within seconds and minutes it varies.
	Pace float64
	// WarmUp publishes some 4,000 events of the last six hours first. Ask for
	// it when the stream is empty; see the package comment.
	WarmUp bool
	// Seed chooses where in the sample the replay begins, and its variation;
	// default: by the clock.
	Seed uint64
}

const defaultPace = 45

func (c Config) withDefaults() Config {
	if c.Pace == 0 {
		c.Pace = defaultPace
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	return c
}

func (c Config) check() error {
	if len(c.Stages.Names()) == 0 {
		return errors.New("demo: the stages are needed")
	}
	if !(c.Pace >= 0.1 && c.Pace <= 1000) {
		return fmt.Errorf("demo: Pace is %v, not within 0.1 and 1000", c.Pace)
	}
	return nil
}

// Publisher is the client's publisher.
type Publisher interface {
	EmitBatch(ctx context.Context, events []event.Event) ([]client.Outcome, error)
}

// Demo replays the sample.
type Demo struct {
	cfg     Config
	sample  *sample.Sample
	deliver delivery
	log     *slog.Logger
}

// New returns a demo that Run starts. It unpacks the sample, which takes some
// 50 ms, so that Run's first events come the sooner. The demo reports outages
// itself, once each; the publisher is best given no log of its own.
func New(cfg Config, publisher Publisher, log *slog.Logger) (*Demo, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if publisher == nil || log == nil {
		return nil, errors.New("demo: a publisher and a log are needed")
	}
	s, err := sample.Read(bytes.NewReader(sampleFile))
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &Demo{cfg: cfg, sample: s, deliver: delivery{publisher: publisher, log: log}, log: log}, nil
}

// tick is how long events are gathered, which spares the server a sync to disk
// for each; people do not notice it.
const tick = 100 * time.Millisecond

// Run replays the sample, over and over, until ctx ends. That is no error.
func (d *Demo) Run(ctx context.Context) error {
	p := newPlayer(d.cfg, d.sample)
	d.log.Info("the demo publishes sample events", "events_per_second", d.cfg.Pace, "warm_up", d.cfg.WarmUp)
	if d.cfg.WarmUp {
		start := time.Now()
		p.warmUp(start)
		d.publishDue(ctx, p, start)
	}
	p.begin(time.Now())
	for ctx.Err() == nil {
		now := time.Now()
		p.advance(now)
		d.publishDue(ctx, p, now)
		select {
		case <-time.After(max(tick, time.Until(p.nextDue()))):
		case <-ctx.Done():
		}
	}
	return nil
}

func (d *Demo) publishDue(ctx context.Context, p *player, now time.Time) {
	for ctx.Err() == nil {
		events := p.due(now)
		if len(events) == 0 {
			return
		}
		d.deliver.publish(ctx, events)
	}
}
