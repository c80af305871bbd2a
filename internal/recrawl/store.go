package recrawl

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/outbox"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/feed"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/stream"
)

//go:embed sql/*.sql
var texts embed.FS

func text(name string) string { return queue.Text(texts, name) }

// Bounds of retries.
const (
	// Window is how many items of a category are in its queue and have not ended.
	Window = 1000
	// Keep is how long errors that are not tried again are kept, from when their batch was
	// read: as long as ClickHouse has them.
	Keep = 365 * 24 * time.Hour
)

// Store has items of batches tried again. It is safe for concurrent use.
type Store struct {
	own    *userqueue.Store
	outbox *outbox.Outbox
	feeds  []*feed.Feed
	log    *slog.Logger
}

// New returns the store, and sets the hooks of its queues: every process that moves items
// makes one, before it uses the queues.
func New(own *userqueue.Store, log *slog.Logger) (*Store, error) {
	if own == nil || log == nil {
		return nil, errors.New("recrawl: the queues and a logger are needed")
	}
	s := &Store{own: own, outbox: outbox.New(stream.BatchesRead), log: log.With("component", "recrawl")}
	for _, p := range batches.Policies() {
		fill := strings.NewReplacer("{queue}", p.Queue).Replace
		f, err := feed.New(feed.Config{
			Name: p.Queue, Queue: p.Queue, Window: Window, Every: feedEvery, Moved: s.moved,
			SQL: feed.SQL{
				Groups: fill(text("groups")), Next: fill(text("next")), Fed: text("fed"),
			},
		}, own, log)
		if err != nil {
			return nil, err
		}
		own.Queues().BarRetry(p.Queue, lost)
		s.feeds = append(s.feeds, f)
	}
	return s, nil
}

// Outbox has the outcomes of retries on their way to ClickHouse.
func (s *Store) Outbox() *outbox.Outbox { return s.outbox }

const (
	// feedEvery is how often each of the feeds looks for errors that are due, also in an installation without batches.
	feedEvery  = time.Second
	makeEvery  = 5 * time.Second
	mendEvery  = 15 * time.Second
	purgeEvery = time.Hour
)

// Run feeds the queues until ctx ends. Any number of processes may run it on the same
// database. While the database is away it tries again.
func (s *Store) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range s.feeds {
		g.Go(func() error { return f.Run(ctx) })
	}
	g.Go(func() error { // also one that somebody has deleted
		return retry.Every(ctx, makeEvery, s.MakeQueues, retry.Warn(s.log, "the queues of retries cannot be made now"))
	})
	g.Go(func() error {
		return retry.Every(ctx, mendEvery, s.mend,
			retry.Warn(s.log, "errors of batches that wait too long cannot be found now"))
	})
	g.Go(func() error {
		return retry.Every(ctx, purgeEvery, s.purge, retry.Warn(s.log, "old errors of batches cannot be dropped now"))
	})
	return g.Wait()
}

// MakeQueues makes those queues that are not there. Those that are may have any settings.
func (s *Store) MakeQueues(ctx context.Context) error {
	for _, p := range batches.Policies() {
		_, err := s.own.Get(ctx, p.Queue)
		if errors.Is(err, queue.ErrNoQueue) {
			_, err = s.own.Create(ctx, settings(p))
		}
		if err != nil && !errors.Is(err, userqueue.ErrDiffers) {
			return fmt.Errorf("make the queue %s: %w", p.Queue, err)
		}
	}
	return nil
}

// settings are those of the queue of a policy.
func settings(p batches.Policy) queue.Settings {
	const lease, keep, most = 5 * time.Minute, 24 * time.Hour, 100_000
	v := queue.Settings{
		Name: p.Queue, MaxAttempts: len(p.Waits), LeaseS: lease.Seconds(), RetentionS: keep.Seconds(), MaxItems: most,
	}
	for _, wait := range p.Waits[1:] {
		v.BackoffS = append(v.BackoffS, wait.Seconds())
	}
	return v
}

// mend has errors tried again now that are to wait for longer than their policy says: the clock of Postgres was
// set back since.
func (s *Store) mend(ctx context.Context) error {
	for _, p := range batches.Policies() {
		waits := make([]float64, len(p.Waits))
		for i, wait := range p.Waits {
			waits[i] = wait.Seconds()
		}
		if _, err := s.own.Queues().Pool().Exec(ctx, text("mend"), p.Queue, waits); err != nil {
			return fmt.Errorf("look for errors that wait too long: %w", err)
		}
	}
	return nil
}

// purge drops errors that are not tried again, and are kept no longer.
func (s *Store) purge(ctx context.Context) error {
	_, err := s.own.Queues().Pool().Exec(ctx,
		"DELETE FROM millrace.batch_error WHERE state = 'error' AND read_at < now() - $1::interval", Keep)
	if err != nil {
		return fmt.Errorf("drop old errors of batches: %w", err)
	}
	return nil
}
