package uploads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/objects"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/uploads"
)

// ExporterConfig shapes an exporter. The zero value of a field stands for its default.
type ExporterConfig struct {
	Parallel int           // exports that a process makes at one time; default 2
	Keep     time.Duration // how long exports are kept that are done or failed; default 24 h
	MaxBytes int64         // of a file; default 20 GiB
	Temp     string        // folder for temporary files; empty: that of the system
}

// Exporter makes exports. Any number of processes may have one: an export whose process has died is made anew by
// another one.
type Exporter struct {
	cfg   ExporterConfig
	store *uploads.Store
	files *uploads.Files
	log   *slog.Logger
}

// NewExporter checks what it is given, and starts nothing.
func NewExporter(cfg ExporterConfig, store *uploads.Store, files *uploads.Files, log *slog.Logger) (*Exporter, error) {
	if store == nil || files == nil || log == nil {
		return nil, errors.New("exports of uploads: the state, files and a logger are needed")
	}
	cfg.Parallel = cmp.Or(cfg.Parallel, 2)
	cfg.Keep = cmp.Or(cfg.Keep, 24*time.Hour)
	cfg.MaxBytes = cmp.Or(cfg.MaxBytes, 20<<30)
	if cfg.Parallel < 1 || cfg.Keep < 0 || cfg.MaxBytes < 1 {
		return nil, errors.New("exports of uploads: want at least 1 at a time, 1 byte, and a retention above 0")
	}
	return &Exporter{cfg, store, files, log.With("component", "exports of uploads")}, nil
}

// errDied is the error of an export whose processes die.
var errDied = errors.New("processes that made it have died")

const (
	// maxExportAttempts is how often an export is tried.
	maxExportAttempts = 5

	exportPoll  = 500 * time.Millisecond // for exports to make
	exportPulse = 2 * time.Second        // between two signs
)

// Run makes exports until ctx ends. While the database is away it tries again.
func (x *Exporter) Run(ctx context.Context) error {
	var all errgroup.Group
	for range x.cfg.Parallel {
		all.Go(func() error {
			return retry.Poll{
				Every:  exportPoll,
				Failed: retry.Warn(x.log, "exports cannot be made now"),
			}.Run(ctx, x.Next)
		})
	}
	return all.Wait()
}

// Next makes an export if there is one to make.
func (x *Exporter) Next(ctx context.Context) (made bool, err error) {
	e, claimed, err := x.store.ClaimExport(ctx)
	if err != nil || !claimed {
		return false, err
	}
	err = x.make(ctx, e)
	switch {
	case err == nil:
		x.log.Info("an export is done", "upload", e.Job, "export", e.ID, "format", e.Format)
	case errors.Is(err, uploads.ErrStopped): // deleted, or another process makes it
	case ctx.Err() != nil: // another process makes it when this one has been silent for long enough
	default:
		x.log.Warn("an export has failed", "upload", e.Job, "export", e.ID, "attempt", e.Attempts, "error", err)
		text, final := reason(err)
		if err := x.store.FailExport(ctx, e, text, final || e.Attempts >= maxExportAttempts, x.cfg.Keep); err != nil && !errors.Is(err, uploads.ErrStopped) {
			return true, err
		}
	}
	return true, nil
}

// reason is what the user is told of a failure, and whether it stays so.
func reason(err error) (text string, final bool) {
	var state *uploads.StateError
	var limit *uploads.LimitError
	switch {
	case errors.As(err, &state):
		return state.Rule, true
	case errors.As(err, &limit):
		return limit.Rule, true
	case errors.Is(err, uploads.ErrTooLarge):
		return "the file would have more bytes than the uploads of a user may have: ask for ndjson.zst", true
	}
	if errors.Is(err, errDied) {
		return "the servers that made it have died: ask for another format", true
	}
	return "making it has failed: the server's log has the cause", false
}

// make writes the file of an export into the storage, and removes what it has written of one that does not count.
func (x *Exporter) make(ctx context.Context, e uploads.Export) error {
	stored, rows, err := x.write(ctx, e)
	if err == nil {
		err = x.store.FinishExport(ctx, e, stored, rows, x.cfg.Keep)
		var limit *uploads.LimitError
		if err == nil || !errors.Is(err, uploads.ErrStopped) && !errors.As(err, &limit) {
			return err // which may be lost, while the export is DONE
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(fmt.Errorf("make the export %s: %w", e.ID, err), x.files.RemoveExport(ctx, e, e.Attempts))
}

func (x *Exporter) write(ctx context.Context, e uploads.Export) (stored objects.Stored, n int64, err error) {
	if e.Attempts > maxExportAttempts {
		return stored, 0, errDied
	}
	if err := x.files.RemoveExport(ctx, e, e.Attempts-1); err != nil { // of processes that have died
		return stored, 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var rows, total atomic.Int64
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel(nil)
	others.Go(func() { cancel(x.pulse(ctx, e, &rows, &total)) })
	from, to := io.Pipe()
	others.Go(func() {
		f := resultFile{x.store, e.Job, e.Format, e.Exact, x.cfg.Temp}
		_ = to.CloseWithError(f.write(ctx, uploads.Viewer{All: true}, to, func(n, of int64) { rows.Store(n); total.Store(of) }))
	})
	stored, err = x.files.PutExport(ctx, e, x.cfg.MaxBytes, from)
	_ = from.Close() // so that the writer ends
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = errors.Join(cause, err)
	}
	return stored, rows.Load(), err
}

// pulse gives signs of an export until ctx ends or another process may make it.
func (x *Exporter) pulse(ctx context.Context, e uploads.Export, rows, total *atomic.Int64) error {
	tick := time.NewTicker(exportPulse)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		limited, cancel := context.WithTimeout(ctx, exportPulse)
		err := x.store.NoteExport(limited, e, rows.Load(), total.Load())
		cancel()
		switch {
		case err == nil:
			last = time.Now()
		case errors.Is(err, uploads.ErrStopped):
			return err
		case time.Since(last) > uploads.ExportSilence/2:
			return fmt.Errorf("%w: %w", uploads.ErrStopped, err)
		}
	}
}
