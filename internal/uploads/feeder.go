package uploads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/userqueue"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// FeederConfig shapes a feeder. The zero value of a field stands for its default.
type FeederConfig struct {
	Pace  schema.Pace
	Locks schema.Locks
	// NotFoundWait is how long a row waits on average that was not found, and is looked for again; default 30 s.
	NotFoundWait time.Duration
	// Base is where links to inputs begin that no item can hold; default /api/v1.
	Base string
}

// Feeder has rows worked through the queues that are the processors of their jobs. It is safe for concurrent use.
type Feeder struct {
	cfg   FeederConfig
	store *Store
	own   *userqueue.Store
	log   *slog.Logger

	woken atomic.Int64 // when feeds were woken last, in milliseconds
	mu    sync.Mutex
	feeds map[string]*feeding // by queue
}

// feeding is a feed that runs.
type feeding struct {
	feed  *feed.Feed
	stop  context.CancelFunc
	ended chan struct{}
}

// NewFeeder checks what it is given, and has rows follow their items from then on: every process that moves items
// makes one, before it uses the queues.
func NewFeeder(cfg FeederConfig, store *Store, own *userqueue.Store, log *slog.Logger) (*Feeder, error) {
	if store == nil || own == nil || log == nil {
		return nil, errors.New("uploads: the state, the queues and a logger are needed")
	}
	var err error
	if cfg.Pace, err = cfg.Pace.WithDefaults(); err != nil {
		return nil, fmt.Errorf("uploads: %w", err)
	}
	if cfg.Locks, err = cfg.Locks.WithDefaults(); err != nil {
		return nil, fmt.Errorf("uploads: %w", err)
	}
	if cfg.NotFoundWait == 0 {
		cfg.NotFoundWait = notFoundWait
	}
	if cfg.NotFoundWait < 0 {
		return nil, errors.New("uploads: the wait of rows that were not found must not be negative")
	}
	if cfg.Base == "" {
		cfg.Base = defaultBase
	}
	f := &Feeder{
		cfg: cfg, store: store, own: own, log: log.With("component", "uploads"), feeds: map[string]*feeding{},
	}
	own.Queues().OnFollowed(f.moved)
	own.Queues().BarFollowed(lost)
	store.hooked = own.Queues().Hooked
	return f, nil
}

// defaultBase is where the API is.
const defaultBase = "/api/v1"

const (
	lookEvery = time.Second      // for queues that are to be fed
	mendEvery = 10 * time.Second // for what a process that was killed has left
	// wakeEvery is how often ends of items wake feeds, at most: a look costs as much as some ends do.
	wakeEvery = 20 * time.Millisecond
)

// Run feeds queues until ctx ends. Any number of processes may run it on the same database. While the database is
// away it tries again.
func (f *Feeder) Run(ctx context.Context) error {
	defer f.stopAll()
	var mended time.Time
	return retry.Poll{
		Every: lookEvery, Wake: f.store.feed,
		Failed: retry.Warn(f.log, "queues of uploads cannot be looked after now"),
	}.Run(ctx, func(ctx context.Context) (more bool, err error) {
		if err := f.look(ctx); err != nil {
			return false, err
		}
		if err := f.Leases(ctx); err != nil || time.Since(mended) <= mendEvery {
			return false, err
		}
		mended = time.Now()
		return false, f.Mend(ctx)
	})
}

// look starts and stops feeds, and fails jobs whose queues are gone.
func (f *Feeder) look(ctx context.Context) error {
	rows, err := f.store.pool.Query(ctx, `SELECT DISTINCT u.processor, s.stage IS NOT NULL, coalesce(s.followed, false)
		FROM millrace.upload AS u LEFT JOIN millrace.stage AS s ON s.name = u.processor AND s.stage >= $1
		WHERE u.queue_state IN ('QUEUED', 'RUNNING') AND u.received_at IS NOT NULL AND u.processor <> 'copy'
		AND u.cancelled_at IS NULL AND u.deleted_at IS NULL AND (u.pending > 0 OR NOT u.read_all)`, queue.FirstOwn)
	if err != nil {
		return fmt.Errorf("look for queues to feed: %w", err)
	}
	wanted := map[string]bool{}
	var name string
	var there, followed bool
	var gone, fresh []string
	_, err = pgx.ForEachRow(rows, []any{&name, &there, &followed}, func() error {
		switch {
		case !there:
			gone = append(gone, name)
			return nil
		case !followed: // it was deleted, and made again
			fresh = append(fresh, name)
		}
		wanted[name] = true
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for queues to feed: %w", err)
	}
	if err := f.settle(ctx, gone, fresh); err != nil {
		return err
	}
	return f.feedThese(ctx, wanted)
}

// settle fails the jobs of queues that are gone, and has others followed.
func (f *Feeder) settle(ctx context.Context, gone, fresh []string) error {
	if len(gone) > 0 {
		_, err := f.store.pool.Exec(ctx, `UPDATE millrace.upload AS u SET queue_state = 'FAILED', finished_at = now(),
			last_error = 'the queue ' || processor || ' is gone: make it again and resume the upload, or delete it'
			WHERE processor = ANY ($1) AND queue_state IN ('QUEUED', 'RUNNING') AND received_at IS NOT NULL
			AND cancelled_at IS NULL AND deleted_at IS NULL
			AND NOT EXISTS (SELECT FROM millrace.stage WHERE name = u.processor)`, gone)
		if err != nil {
			return fmt.Errorf("fail uploads whose queues are gone: %w", err)
		}
	}
	if len(fresh) > 0 {
		_, err := f.store.pool.Exec(ctx, "UPDATE millrace.stage SET followed = true WHERE name = ANY ($1) AND stage >= $2",
			fresh, queue.FirstOwn)
		if err != nil {
			return fmt.Errorf("follow queues of uploads: %w", err)
		}
	}
	return nil
}

// feedThese has these queues fed, and no others.
func (f *Feeder) feedThese(ctx context.Context, wanted map[string]bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, of := range f.feeds {
		if !wanted[name] {
			of.stop()
			<-of.ended
			delete(f.feeds, name)
		}
	}
	for name := range wanted {
		if f.feeds[name] != nil {
			continue
		}
		one, err := f.newFeed(name)
		if err != nil {
			return err
		}
		running, stop := context.WithCancel(ctx)
		of := &feeding{one, stop, make(chan struct{})}
		f.feeds[name] = of
		go func() {
			defer close(of.ended)
			_ = one.Run(running) // it returns no errors
		}()
	}
	return nil
}

// window is how many items of uploads a queue has at most, but for those that wait there to be tried again.
const window = userqueue.MaxItems

func (f *Feeder) newFeed(name string) (*feed.Feed, error) {
	return feed.New(feed.Config{
		Name: "uploads " + name, Queue: name, Window: window, Waiting: true,
		Rows: &rows{feeder: f, queue: name, workers: map[int32]peaks{}},
	}, f.own, f.log)
}

func (f *Feeder) stopAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, of := range f.feeds {
		of.stop()
		<-of.ended
		delete(f.feeds, name)
	}
}

// wakeFeeds has feeds look for rows: items have ended, so there may be room.
func (f *Feeder) wakeFeeds() {
	now, last := time.Now().UnixMilli(), f.woken.Load()
	if now-last < wakeEvery.Milliseconds() || !f.woken.CompareAndSwap(last, now) {
		return // the feeds look by themselves, a little later
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.feeds {
		of.feed.Wake()
	}
}

// Step feeds a queue once, as Run does. It is for one goroutine at a time.
func (f *Feeder) Step(ctx context.Context, name string) (int, error) {
	one, err := f.newFeed(name)
	if err != nil {
		return 0, err
	}
	return one.Step(ctx)
}
