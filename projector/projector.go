package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/layout"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Config of a Projector. The zero value of a field stands for its default.
type Config struct {
	Stages event.Stages // the pipeline; required
	Dir    string       // folder of the key store; required
	// SlotGroups is with how many slot groups an installation begins, 1 to 256;
	// default 1. Later ones take those that there are: layout.Regroup changes
	// them.
	SlotGroups uint32
	// BatchRows bounds the messages of a batch; default 32,000.
	BatchRows int
	// BatchBytes bounds a batch's messages in bytes; default 32 MiB.
	BatchBytes int
	// MinInterval is the least time between the starts of two batches while
	// messages trickle in, so that the database is not handed many small
	// ones; default 100 ms. The first message after a pause is not kept.
	MinInterval time.Duration
	// Lease is how long a silent owner keeps its slot group; default 10 s.
	Lease time.Duration
	// FunnelCacheBytes bounds the funnel rows of a slot group in memory;
	// default 128 MiB.
	FunnelCacheBytes int
	KeyStore         keystore.Options
}

// answerWithin is how long the broker may take to acknowledge a dead letter
// before it is sent again.
const answerWithin = 2 * time.Second

func (c Config) withDefaults() Config {
	if c.BatchRows == 0 {
		c.BatchRows = 32_000
	}
	if c.BatchBytes == 0 {
		c.BatchBytes = 32 << 20
	}
	if c.MinInterval == 0 {
		c.MinInterval = 100 * time.Millisecond
	}
	if c.Lease == 0 {
		c.Lease = 10 * time.Second
	}
	return c
}

// Projector folds the EVENTS stream into the events table and the funnel,
// beside other projectors: each owns some of the slot groups.
type Projector struct {
	cfg     Config
	nc      *nats.Conn
	js      jetstream.JetStream
	ch      *clickhouse.Options
	log     *slog.Logger
	metrics *metrics
}

// New checks the configuration and starts nothing. The streams have to exist
// when Run is called, and the tables soon after.
func New(cfg Config, nc *nats.Conn, ch *clickhouse.Options, reg prometheus.Registerer, log *slog.Logger) (*Projector, error) {
	if cfg.Dir == "" {
		return nil, errors.New("projector: a folder for the key store is required")
	}
	if len(cfg.Stages.Names()) == 0 {
		return nil, errors.New("projector: stages are required")
	}
	// A message that the broker can't store is not answered at all.
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(answerWithin))
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	if cfg.SlotGroups > stream.Slots {
		return nil, fmt.Errorf("projector: %d slot groups: there are %d slots", cfg.SlotGroups, stream.Slots)
	}
	return &Projector{cfg: cfg.withDefaults(), nc: nc, js: js, ch: ch, log: log.With("component", "projector"), metrics: newMetrics(reg)}, nil
}

// Run folds until ctx ends, and then completes and acknowledges what it has
// begun. While other projectors own all slot groups, it stands by.
func (p *Projector) Run(ctx context.Context) error {
	err := p.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (p *Projector) run(ctx context.Context) error {
	owner, err := ownerName(p.cfg.Dir)
	if err != nil {
		return err
	}
	kv, err := p.agree(ctx)
	if err != nil {
		return err
	}
	return newCrew(p, kv, owner).run(ctx)
}

// agree returns the bucket of decisions as soon as the streams are to be had
// and there are slot groups.
func (p *Projector) agree(ctx context.Context) (jetstream.KeyValue, error) {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		kv, err := p.js.KeyValue(ctx, stream.Checkpoints)
		if err == nil {
			var l slots.Layout
			if l, err = layout.Agree(ctx, kv, p.cfg.SlotGroups); err == nil {
				p.compare(l)
				return kv, nil
			}
		}
		if errors.Is(err, layout.ErrUnknown) || ctx.Err() != nil {
			return nil, err
		}
		p.log.Warn("the layout of slot groups cannot be read, trying again", "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// compare tells of a setting that has no effect any more.
func (p *Projector) compare(l slots.Layout) {
	groups := uint32(len(l.Current()))
	if l.Next > 0 {
		groups = l.Next
	}
	if want := p.cfg.SlotGroups; want != 0 && want != groups {
		p.log.Warn("the setting of slot groups is for the first start only: leave it out, or change their number with millrace regroup",
			"slot_groups", groups, "setting", want)
	}
}

// stopError is one that starting again would not mend.
type stopError struct{ error }

func (e stopError) Unwrap() error { return e.error }

// ownerName returns the name by which a projector with this folder owns slot
// groups, so that one that restarts need not wait for its own lease.
func ownerName(dir string) (string, error) {
	path := filepath.Join(dir, "owner")
	name, err := os.ReadFile(path)
	if err == nil && len(name) > 0 {
		return string(name), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read projector name: %w", err)
	}
	name = []byte(nuid.Next())
	if err := os.WriteFile(path, name, 0o600); err != nil {
		return "", fmt.Errorf("write projector name: %w", err)
	}
	return string(name), nil
}
