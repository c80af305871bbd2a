package itemindex

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/diskroom"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/stream"
)

//go:embed sql/*.sql
var files embed.FS

var sqlBaseline, sqlOutcomes = text("baseline"), text("outcomes")

func text(name string) string {
	sql, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // it is part of the program
	}
	return string(sql)
}

// Deps are what the index works with. All of them are needed, and it closes none.
type Deps struct {
	JetStream  jetstream.JetStream
	ClickHouse driver.Conn // of a single server
	Registry   prometheus.Registerer
	Log        *slog.Logger
}

// Index finds outcomes of items. It is safe for concurrent use.
type Index struct {
	deps    Deps
	dir     string
	metrics *metrics
	log     *slog.Logger

	behind  chan struct{} // a token when a lookup has found the index to be behind
	applied atomic.Uint64
	looked  atomic.Pointer[time.Time] // when the baseline was last found to be the store's; nil: never

	mu   sync.RWMutex
	open *store // nil: it answers nothing
	bad  error  // what a lookup has found to be damaged
}

// New returns an index in a folder of its own, which no other process uses. It starts nothing.
func New(dir string, deps Deps) (*Index, error) {
	if deps.JetStream == nil || deps.ClickHouse == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("index of items: JetStream, ClickHouse, a registry and a logger are needed")
	}
	x := &Index{
		deps: deps, dir: dir, log: deps.Log.With("component", "index of items"), behind: make(chan struct{}, 1),
	}
	var err error
	x.metrics, err = newMetrics(deps.Registry)
	return x, err
}

const (
	// lookEvery is how often the baseline is compared, and lookFor how long it counts.
	lookEvery = 2 * time.Second
	lookFor   = 10 * time.Second
	// askFor bounds the question for the position that each lookup asks.
	askFor = 250 * time.Millisecond
)

// Lookup returns the outcomes of the items with a content id, at most so many, the newest
// crawls first and those without a time last. With false, the index can't tell now, and
// ClickHouse is to be asked.
func (x *Index) Lookup(ctx context.Context, id string, limit int) (rows []Row, ok bool) {
	rows, ok = x.lookup(ctx, id, limit)
	x.metrics.asked(ok)
	return rows, ok
}

func (x *Index) lookup(ctx context.Context, id string, limit int) ([]Row, bool) {
	looked := x.looked.Load()
	if looked == nil || time.Since(*looked) > lookFor || !x.deps.JetStream.Conn().IsConnected() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	decided, err := x.position(ctx)
	if err != nil {
		return nil, false
	}
	if x.applied.Load() < decided.To {
		select {
		case x.behind <- struct{}{}:
		default:
		}
		return nil, false
	}
	x.mu.RLock()
	rows, err := x.find(id, limit)
	x.mu.RUnlock()
	if err != nil {
		x.fail(err)
		return nil, false
	}
	return rows, rows != nil
}

func (x *Index) find(id string, limit int) (rows []Row, err error) {
	if x.open == nil || x.bad != nil {
		return nil, nil
	}
	err = diskroom.Survive(func() error {
		rows, err = x.open.find(id, limit)
		return err
	})
	if err == nil && rows == nil {
		rows = []Row{}
	}
	return rows, err
}

// fail has the index made again.
func (x *Index) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.bad = errors.Join(x.bad, err)
}

// position is how far the projector is with the stream.
func (x *Index) position(ctx context.Context) (r checkpoint.Record[struct{}], err error) {
	value, err := stream.GetKey(ctx, x.deps.JetStream, stream.Checkpoints, stream.BatchesCheckpoint)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read the position of the projector: %w", err)
	}
	return checkpoint.Parse[struct{}](value)
}

// use has lookups use a store; nil: none.
func (x *Index) use(s *store) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open, x.bad = s, nil
	x.metrics.use(s)
}

var backoff = retry.Backoff{First: 200 * time.Millisecond, Most: 30 * time.Second}

// Run keeps the index until ctx ends. It outlives servers that are away.
func (x *Index) Run(ctx context.Context) error {
	return backoff.Keep(ctx, x.session,
		retry.WarnWait(x.log, "ClickHouse answers in the place of the index of items, which is opened again"))
}

// session keeps the index for as long as nothing fails.
func (x *Index) session(ctx context.Context) (err error) {
	s, err := openStore(ctx, vfs.Default, x.dir, x.log)
	if err != nil {
		return err
	}
	defer func() {
		x.use(nil)
		if errors.Is(err, errDamaged) || errors.Is(err, errOutdated) {
			x.metrics.rebuilds.Inc()
			err = errors.Join(err, s.remove())
			return
		}
		err = errors.Join(err, s.close())
	}()
	f := follower{Index: x, store: s}
	for {
		wait, err := f.step(ctx)
		if err != nil {
			return err
		}
		retry.Well(ctx)
		var behind <-chan struct{}
		if wait == longIdle {
			behind = x.behind // other waits are there to spare ClickHouse (4)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-behind:
		case <-time.After(wait):
		}
	}
}
