package pipeline

import (
	"cmp"
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
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Config of a Projector. The zero value of a field stands for its default.
type Config struct {
	Stages event.Stages // the pipeline; required
	Dir    string       // folder of the key store; required
	// SlotGroups is the number of slot groups that a new installation begins with,
	// 1 to 256; default 1. An installation that has groups keeps them:
	// layout.Regroup changes their number.
	SlotGroups uint32
	// BatchRows bounds the messages of a batch; default 100,000.
	BatchRows int
	// BatchBytes bounds a batch's messages in bytes; default 32 MiB.
	BatchBytes int
	// MinInterval is the least time between the starts of two batches while
	// messages trickle in, so that ClickHouse does not get many small inserts;
	// default that of a fold. The first message after a pause is not delayed.
	MinInterval time.Duration
	// Lease is how long a silent owner keeps its slot group; default DefaultLease.
	Lease time.Duration
	// FunnelCacheBytes bounds the funnel rows of a slot group in memory;
	// default 48 MiB.
	FunnelCacheBytes int
	// KeyStore is for the key store of each slot group. Their filters share 64 MiB
	// by default.
	KeyStore keystore.Options
	// AuditEvery is the least time between two comparisons of what a slot group has
	// counted with what ClickHouse has; default 15 s.
	AuditEvery time.Duration
	// AuditShare is how many times as long as a comparison takes passes at least until the next; default 100, by which
	// they take one hundredth of the time at most.
	AuditShare int
	// Backlog is told when a backlog begins to be folded, and when none is left.
	// It must not wait; default: nobody is told.
	Backlog func(begins bool)
	// StreamLost names the sequences that the stream EVENTS is known to have lost,
	// for errors to tell a damaged stream from a damaged key store; default: none are
	// known.
	StreamLost func() string
	// StreamSkips is told when the stream claims to have messages that it does not
	// deliver. It must not wait; default: nobody is told.
	StreamSkips func()
	// Tracer has spans for events that are traced; default: nothing is traced.
	Tracer trace.Tracer
	// Slow is told of slow statements of ClickHouse; default: nobody is.
	Slow *dbpool.Slow
}

// DefaultLease is how long a silent owner keeps its slot group unless Config says otherwise.
const DefaultLease = 10 * time.Second

// answerWithin is how long the broker may take to acknowledge a dead letter
// before it is sent again.
const answerWithin = 2 * time.Second

// backoff is how long to wait before the broker is asked again.
var backoff = retry.Backoff{First: 50 * time.Millisecond, Most: 5 * time.Second}

func (c Config) withDefaults() Config {
	c.BatchRows = cmp.Or(c.BatchRows, 100_000)
	c.BatchBytes = cmp.Or(c.BatchBytes, 32<<20)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.AuditEvery = cmp.Or(c.AuditEvery, auditEvery)
	c.AuditShare = cmp.Or(c.AuditShare, auditShare)
	if c.StreamLost == nil {
		c.StreamLost = func() string { return "" }
	}
	if c.StreamSkips == nil {
		c.StreamSkips = func() {}
	}
	if c.KeyStore.Filters == nil {
		c.KeyStore.Filters = keystore.NewFilterMemory(keystore.DefaultFilterMemory)
	}
	return c
}

// Projector folds the EVENTS stream into the events table and the funnel,
// beside other projectors: each owns some of the slot groups.
type Projector struct {
	cfg      Config
	nc       *nats.Conn
	js       jetstream.JetStream
	ch       *clickhouse.Options
	log      *slog.Logger
	metrics  *metrics
	known    *reference
	behind   backlogs
	unfolded unfolded

	assignment *assignment.Assignment
}

// New checks the configuration and starts nothing. The streams have to exist
// when Run is called, and the tables soon after.
func New(cfg Config, nc *nats.Conn, ch *clickhouse.Options, reg prometheus.Registerer,
	log *slog.Logger,
) (*Projector, error) {
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
	p := &Projector{
		cfg: cfg.withDefaults(), nc: nc, js: js, ch: ch, log: log.With("component", "projector"),
		metrics: newMetrics(reg), known: newReference(),
		behind: backlogs{tell: cfg.Backlog, groups: map[uint32]struct{}{}}, unfolded: unfolded{groups: map[uint32]*holding{}},
	}
	p.assignment = assignment.New(assignment.Config{Lease: p.cfg.Lease, Fold: p.fold, Forget: p.forget}, nc, p.log)
	return p, nil
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
	stop, err := p.known.serve(p.nc)
	if err != nil {
		return fmt.Errorf("answer which events are known: %w", err)
	}
	defer stop()
	return p.assignment.Run(ctx, kv, owner)
}

// Damage tells of positions in the bucket of checkpoints that cannot be read, nil
// when there are none. It is for /ready.
func (p *Projector) Damage() error { return p.assignment.Damage() }

// Unfolded returns the slot groups that this process holds and does not fold, and why. It
// may be called at any time.
func (p *Projector) Unfolded() map[uint32]lag.Reason { return p.unfolded.reasons() }

// agree returns the bucket of checkpoints as soon as it exists and the slot groups
// are agreed on.
func (p *Projector) agree(ctx context.Context) (kv jetstream.KeyValue, err error) {
	var l slots.Layout
	err = backoff.Do(ctx, func() (err error) {
		if kv, err = p.js.KeyValue(ctx, stream.Checkpoints); err != nil {
			return err
		}
		if l, err = assignment.AgreeLayout(ctx, kv, p.cfg.SlotGroups); errors.Is(err, assignment.ErrUnknownLayout) {
			return retry.Stop(err)
		}
		return err
	}, retry.WarnWait(p.log, "the layout of slot groups cannot be read, trying again"))
	if err == nil {
		p.warnOfGroups(l)
	}
	return kv, err
}

// warnOfGroups warns when the setting of slot groups has no effect.
func (p *Projector) warnOfGroups(l slots.Layout) {
	groups := uint32(len(l.Current()))
	if l.Next > 0 {
		groups = l.Next
	}
	if want := p.cfg.SlotGroups; want != 0 && want != groups {
		p.log.Warn("the setting of slot groups is for the first start only: leave it out, or change their number "+
			"with millrace regroup",
			"slot_groups", groups, "setting", want)
	}
}

// ownerName returns the name under which a projector with this folder owns slot
// groups. It is the same after a restart, so that the projector need not wait for
// its own lease to end.
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
