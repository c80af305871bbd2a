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

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/store"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Config of a Projector. The zero value of a field stands for its default.
type Config struct {
	Stages event.Stages // the pipeline; required
	Dir    string       // folder of the key store; required
	Group  uint32       // slot group; default 0
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
	// FunnelCacheBytes bounds the funnel rows in memory; default 128 MiB.
	FunnelCacheBytes int
	KeyStore         keystore.Options
}

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

// Projector folds the EVENTS stream into the events table and the funnel.
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
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("projector: %w", err)
	}
	return &Projector{cfg: cfg.withDefaults(), nc: nc, js: js, ch: ch, log: log.With("component", "projector"), metrics: newMetrics(reg)}, nil
}

// Run folds until ctx ends, and then completes and acknowledges what it has
// begun. While another projector owns the slot group, it stands by.
func (p *Projector) Run(ctx context.Context) error {
	err := p.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (p *Projector) run(ctx context.Context) error {
	keys, err := p.openKeys()
	if err != nil {
		return err
	}
	defer keys.Close()
	db, err := store.Open(p.ch, p.log)
	if err != nil {
		return err
	}
	defer db.Close()
	owner, err := ownerName(p.cfg.Dir)
	if err != nil {
		return err
	}
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		began := time.Now()
		err := p.term(ctx, owner, keys, db)
		var fatal stopError
		switch {
		case ctx.Err() != nil:
			return err
		case errors.As(err, &fatal):
			return err
		case errors.Is(err, checkpoint.ErrLost):
			p.log.Warn("standing by", "reason", err)
			continue
		}
		if !p.nc.IsConnected() || time.Since(began) > time.Minute {
			wait = time.Second
		}
		if p.nc.IsConnected() { // else the connection's owner is told
			p.log.Error("projector failed, starting again from what is durable", "error", err, "retry_in", wait)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// term waits for the slot group and folds until another projector takes over,
// ctx ends, or something fails.
func (p *Projector) term(ctx context.Context, owner string, keys *keystore.Store, db *store.Store) error {
	kv, err := p.js.KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", stream.Checkpoints, err)
	}
	log, err := p.stand(ctx, kv, owner)
	if err != nil {
		return err
	}
	return p.lead(ctx, log, keys, db)
}

// stopError is one that starting again would not mend.
type stopError struct{ error }

func (e stopError) Unwrap() error { return e.error }

func (p *Projector) checkpointKey() string { return fmt.Sprintf("funnel.%d", p.cfg.Group) }

// stand waits until the slot group has no living owner, and takes it.
func (p *Projector) stand(ctx context.Context, kv jetstream.KeyValue, owner string) (*checkpoint.Log, error) {
	var revision uint64
	var since time.Time
	for {
		log, err := checkpoint.Open(ctx, kv, p.checkpointKey(), owner)
		if err != nil {
			return nil, err
		}
		if log.Revision() != revision || since.IsZero() {
			revision, since = log.Revision(), time.Now()
		}
		held := log.Record().Owner
		if held == "" || held == owner || time.Since(since) > p.cfg.Lease {
			return log, log.Take(ctx)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(p.cfg.Lease / 20):
		}
	}
}

// openKeys opens the key store. A damaged one is put aside: it is filled again
// from the events table.
func (p *Projector) openKeys() (*keystore.Store, error) {
	dir := filepath.Join(p.cfg.Dir, "keys")
	o := p.cfg.KeyStore
	o.Logger = p.log
	keys, err := keystore.Open(dir, o)
	if !keystore.IsDamaged(err) {
		return keys, err
	}
	aside := fmt.Sprintf("%s.damaged-%d", dir, time.Now().Unix())
	p.log.Error("the key store is damaged, filling a new one from the events table", "error", err, "aside", aside)
	if err := os.Rename(dir, aside); err != nil {
		return nil, fmt.Errorf("put damaged key store aside: %w", err)
	}
	return keystore.Open(dir, o)
}

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
