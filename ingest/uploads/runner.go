package uploads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/uploads"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// RunnerConfig shapes a runner. The zero value of a field stands for its default.
type RunnerConfig struct {
	Bounds schema.Bounds // of batches
	// Parallel is how many uploads a process works on at one time; default 8. One user has half of these
	// at most.
	Parallel int
	Temp     string // folder for temporary files; default that of the system
	// Keep is how long uploads are kept that have ended; 0: for ever.
	Keep time.Duration
}

// Runner works on uploads: it persists their rows, runs the processor copy, ends what workers have done with, and
// deletes what was deleted.
// Any number of processes may have one. A process that works on an upload holds an advisory lock of it, so
// that another one takes over as soon as it has died.
type Runner struct {
	cfg   RunnerConfig
	store *uploads.Store
	files *uploads.Files
	feed  *uploads.Feeder
	log   *slog.Logger

	metrics *metrics
}

// NewRunner checks what it is given, and starts nothing.
func NewRunner(
	cfg RunnerConfig, store *uploads.Store, files *uploads.Files, feed *uploads.Feeder, registry prometheus.Registerer,
	log *slog.Logger,
) (*Runner, error) {
	if store == nil || files == nil || feed == nil || registry == nil || log == nil {
		return nil, errors.New("uploads: the state, files, the feeder, a registry and a logger are needed")
	}
	if cfg.Keep < 0 {
		return nil, fmt.Errorf("uploads: the retention must not be negative: it is %s", cfg.Keep)
	}
	var err error
	if cfg.Bounds, err = cfg.Bounds.WithDefaults(); err != nil {
		return nil, err
	}
	if cfg.Parallel == 0 {
		cfg.Parallel = 8
	}
	if cfg.Parallel < 1 {
		return nil, fmt.Errorf("uploads: want to work on at least 1 at a time, not %d", cfg.Parallel)
	}
	m, err := newMetrics(registry, store.Pool())
	if err != nil {
		return nil, fmt.Errorf("uploads: %w", err)
	}
	return &Runner{cfg, store, files, feed, log.With("component", "uploads"), m}, nil
}

const (
	lookEvery  = time.Second      // for uploads to work on
	sweepEvery = time.Minute      // for files that have stopped coming in
	slowest    = 30 * time.Second // between two attempts that fail
)

// Run works until ctx ends. While the database is away it tries again.
func (r *Runner) Run(ctx context.Context) error {
	return retry.Backoff{First: lookEvery, Most: lookEvery}.Keep(ctx, r.session, func(err error, _ time.Duration) {
		r.log.Warn("uploads cannot be worked on now", "error", err)
	})
}

// session works while its connection lasts, which holds the locks.
type session struct {
	*Runner
	locks  *pgx.Conn
	active map[int32]uploads.Task
	ended  chan result
	failed map[int32]failure
	all    sync.WaitGroup
}

type result struct {
	no  int32
	err error
}

// failure is how often work on an upload has failed in a row.
type failure struct {
	times int
	until time.Time // nobody tries before
}

// locksOf is the class of the advisory locks of uploads.
const locksOf int32 = 0x75706c64

func (r *Runner) session(ctx context.Context) error {
	conn, err := r.store.Pool().Acquire(ctx)
	if err != nil {
		return err
	}
	s := &session{
		Runner: r, locks: conn.Hijack(), active: map[int32]uploads.Task{}, ended: make(chan result),
		failed: map[int32]failure{},
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		go func() {
			for range s.ended {
			}
		}()
		s.all.Wait()
		close(s.ended)
		closing, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer stop()
		_ = s.locks.Close(closing) // that ends the locks
	}()
	return s.loop(ctx)
}

func (s *session) loop(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for swept := (time.Time{}); ; {
		if time.Since(swept) > sweepEvery {
			swept = time.Now()
			if err := s.sweep(ctx); err != nil {
				return err
			}
		}
		if err := s.take(ctx); err != nil {
			return err
		}
		retry.Well(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		case <-s.store.Wakes():
		case of := <-s.ended:
			if err := s.release(ctx, of); err != nil {
				return err
			}
		}
	}
}

// sweep has uploads deleted that have stopped coming in, or whose retention has passed, and exports that have expired.
func (s *session) sweep(ctx context.Context) error {
	if err := s.store.AbandonSilent(ctx); err != nil {
		return err
	}
	if err := s.store.SweepExports(ctx, s.files); err != nil || s.cfg.Keep == 0 {
		return err
	}
	retired, err := s.store.Retire(ctx, s.cfg.Keep)
	if retired > 0 {
		s.log.Info("uploads are deleted: their retention has passed", "uploads", retired)
	}
	return err
}

// take begins work on uploads that nobody works on.
func (s *session) take(ctx context.Context) error {
	if len(s.active) == s.cfg.Parallel {
		return nil
	}
	tasks, err := s.store.Tasks(ctx, 1000)
	if err != nil {
		return err
	}
	owners := map[int32]int{}
	for _, t := range s.active {
		owners[t.OwnerNo]++
	}
	for _, t := range tasks {
		_, mine := s.active[t.No]
		if mine || owners[t.OwnerNo] >= max(s.cfg.Parallel/2, 1) || time.Now().Before(s.failed[t.No].until) {
			continue
		}
		var locked bool
		if err := s.locks.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", locksOf, t.No).Scan(&locked); err != nil {
			return err
		}
		if !locked {
			continue
		}
		owners[t.OwnerNo]++
		s.active[t.No] = t
		s.all.Go(func() { s.ended <- result{t.No, s.work(ctx, t.No)} })
		if len(s.active) == s.cfg.Parallel {
			break
		}
	}
	return nil
}

// release ends work on an upload, which is tried again later if it has failed.
func (s *session) release(ctx context.Context, of result) error {
	delete(s.active, of.no)
	if of.err == nil || errors.Is(of.err, uploads.ErrStopped) {
		delete(s.failed, of.no)
	} else {
		f := s.failed[of.no]
		wait := min(time.Second<<min(f.times, 10), slowest)
		s.failed[of.no] = failure{f.times + 1, time.Now().Add(wait/2 + rand.N(wait/2))}
		if f.times == 0 {
			s.log.Warn("work on an upload has failed, and is tried again", "error", of.err)
		}
	}
	_, err := s.locks.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", locksOf, of.no)
	return err
}

// work does what there is to do for an upload.
func (r *Runner) work(ctx context.Context, no int32) error {
	j, err := r.store.Start(ctx, no)
	if err != nil {
		return err
	}
	switch {
	case j.DeletedAt != nil:
		if left, err := r.store.RemoveExports(ctx, j, r.files); err != nil || left { // the next look tries again
			return err
		}
		if err := r.feed.Erase(ctx, j); err != nil {
			return err
		}
		if err := r.files.Remove(ctx, j.ID); err != nil {
			return err
		}
		return r.store.Clear(ctx, j)
	case j.CancelledAt != nil:
		if err := r.feed.CancelItems(ctx, j); err != nil {
			return err
		}
		return r.move(ctx, j, schema.Skipped)
	}
	if !j.ReadAll {
		if err := r.persist(ctx, j); err != nil {
			return r.told(ctx, j, err)
		}
	}
	if j.Queued() { // workers do the rest
		_, err := r.finish(ctx, j)
		return r.told(ctx, j, err)
	}
	return r.told(ctx, j, r.endCopy(ctx, j))
}

// told has the user see why work on an upload has failed.
func (r *Runner) told(ctx context.Context, j uploads.Job, err error) error {
	if err == nil || errors.Is(err, uploads.ErrStopped) || ctx.Err() != nil {
		return err
	}
	return errors.Join(err, r.store.NoteError(ctx, j, "work on it has failed, and is tried again: the server's log has the cause"))
}

// endCopy ends an upload of the processor copy. Its rows are DONE when they are persisted. The others, which it moves, are
// being reprocessed, or were persisted by a process of an earlier version.
func (r *Runner) endCopy(ctx context.Context, j uploads.Job) error {
	if finished, err := r.finish(ctx, j); err != nil || finished {
		return err
	}
	return r.move(ctx, j, schema.StatusDone)
}

// move moves all pending items to a final status, and finishes the upload.
func (r *Runner) move(ctx context.Context, j uploads.Job, to schema.Status) error {
	if _, err := moveUntil(ctx, r.store, j, to, r.cfg.Bounds, time.Time{}); err != nil {
		return err
	}
	_, err := r.finish(ctx, j)
	return err
}

// finish ends an upload whose items all have final statuses, and tells whether it has.
func (r *Runner) finish(ctx context.Context, j uploads.Job) (bool, error) {
	items, finished, err := r.store.Finish(ctx, j)
	if finished {
		r.log.Info("an upload is done", "upload", j.ID, "items", items)
	}
	return finished, err
}

// narrow is how many times as many items as rows the first batch has. Each transaction waits for the disk, and beside a
// large upload for what that has written, too.
const narrow = 16

// moveUntil moves pending items to a final status until there are none, or for one batch and until the end has
// come; zero: no end. It returns how many.
func moveUntil(
	ctx context.Context, store *uploads.Store, j uploads.Job, to schema.Status, bounds schema.Bounds, end time.Time,
) (all int, err error) {
	bounds.MinRows = min(narrow*bounds.MinRows, bounds.MaxRows)
	batch, after := schema.NewBatch(bounds), int32(0)
	for {
		start := time.Now()
		moved, err := store.Move(ctx, j, to, after, batch.Rows())
		if err != nil {
			return all, err
		}
		if moved.Items == 0 && after == 0 {
			return all, nil
		}
		batch.Took(int(moved.Items), time.Since(start), false)
		all += int(moved.Items)
		if moved.Left == 0 {
			return all, nil
		}
		if after = moved.Upto; int(moved.Items) == 0 {
			after = 0 // once more from the first row: another may have left some behind
		}
		if !end.IsZero() && !time.Now().Before(end) {
			return all, nil
		}
	}
}

func rate(n int, took time.Duration) float64 { return float64(n) / max(took.Seconds(), 1e-3) }
