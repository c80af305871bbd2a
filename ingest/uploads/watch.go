package uploads

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/references"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// WatchConfig shapes a watcher. The zero value of a field stands for its default.
type WatchConfig struct {
	Places    []*references.Place
	Processor string        // of the uploads; default copy
	User      string        // that the uploads belong to
	Every     time.Duration // between two looks; default 30 s
	Settle    time.Duration // for which a file does not change before it is taken; default 10 s
}

// Watcher takes files that come to be in places, each content once. Of all processes one looks.
type Watcher struct {
	cfg  WatchConfig
	h    *Handler
	lead *leader.Candidate
	log  *slog.Logger
}

// watchKey is the lock of who looks.
const watchKey int64 = 0x6d696c6c_77617463

// NewWatcher checks what it is given, and starts nothing.
func NewWatcher(cfg WatchConfig, h *Handler, log *slog.Logger) (*Watcher, error) {
	if h == nil || log == nil {
		return nil, errors.New("watched places: the handler of uploads and a logger are needed")
	}
	if cfg.Every == 0 {
		cfg.Every = 30 * time.Second
	}
	if cfg.Settle == 0 {
		cfg.Settle = 10 * time.Second
	}
	if cfg.Every < 0 || cfg.Settle < 0 {
		return nil, errors.New("watched places: times must not be negative")
	}
	lead, err := leader.New(leader.Config{Name: "watched places", Key: watchKey}, h.store.Pool(), log)
	if err != nil {
		return nil, err
	}
	return &Watcher{cfg, h, lead, log.With("component", "watched places")}, nil
}

// Run looks at the places until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	if len(w.cfg.Places) == 0 {
		<-ctx.Done()
		return nil
	}
	return w.lead.Run(ctx, func(ctx context.Context, _ leader.Term) error {
		return w.each(ctx, func(ctx context.Context, looks *uploads.Looks, i int) error {
			for {
				if _, err := w.scan(ctx, looks, w.cfg.Places[i], time.Time{}); err != nil {
					return err
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(w.cfg.Every):
				}
			}
		})
	})
}

// each does something about all places at once: one that hangs holds up none of the others.
func (w *Watcher) each(ctx context.Context, do func(ctx context.Context, looks *uploads.Looks, i int) error) error {
	looks := w.h.store.Looks()
	all, ctx := errgroup.WithContext(ctx)
	for i := range w.cfg.Places {
		all.Go(func() error { return do(ctx, looks, i) })
	}
	return all.Wait()
}

// ScannedFile is a file of a place.
type ScannedFile struct {
	Place string `json:"place" example:"s3://shop/in/"`
	Path  string `json:"path" doc:"In the place; empty: the place itself" example:"products.csv"`
	JobID string `json:"jobId,omitempty" doc:"The upload that it has become"`
	Error string `json:"error,omitempty" doc:"Why it is not taken"`
}

// Scan is what a look at watched places did.
type Scan struct {
	Places  int           `json:"places" doc:"Watched places"`
	Files   int           `json:"files" doc:"Files that are there"`
	Taken   []ScannedFile `json:"taken" nullable:"false" doc:"Files that have become uploads now"`
	Same    int           `json:"same" doc:"Files that were read now, and whose content was taken before"`
	Failed  []ScannedFile `json:"failed" nullable:"false" doc:"Files and places that cannot be taken now, with the reason"`
	Waiting int           `json:"waiting" doc:"Files that are empty, have changed lately, or are tried again later"`
	More    bool          `json:"more" doc:"Time was up before all files were taken: ask again"`
}

// Scan looks at all places once. It begins to take no more files when the end has come, and waits no longer for lists of
// files; zero: no end.
func (w *Watcher) Scan(ctx context.Context, end time.Time) (scan Scan, err error) {
	scans := make([]Scan, len(w.cfg.Places))
	err = w.each(ctx, func(ctx context.Context, looks *uploads.Looks, i int) (err error) {
		scans[i], err = w.scan(ctx, looks, w.cfg.Places[i], end)
		return err
	})
	scan = Scan{Places: len(scans), Taken: []ScannedFile{}, Failed: []ScannedFile{}}
	for _, at := range scans {
		scan.Files, scan.Same, scan.Waiting = scan.Files+at.Files, scan.Same+at.Same, scan.Waiting+at.Waiting
		scan.Taken, scan.Failed = append(scan.Taken, at.Taken...), append(scan.Failed, at.Failed...)
		scan.More = scan.More || at.More
	}
	return scan, err
}

// errTimeUp ends a wait for a place.
var errTimeUp = errors.New("time is up")

func (w *Watcher) scan(ctx context.Context, looks *uploads.Looks, place *references.Place, end time.Time) (scan Scan, err error) {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if !end.IsZero() {
		waiting, cancel = context.WithDeadlineCause(ctx, end, errTimeUp)
	}
	defer cancel()
	err = looks.At(waiting, place.Name, func() error {
		entries, err := place.List(waiting)
		if err != nil {
			return w.away(waiting, place, err, &scan)
		}
		return w.look(ctx, place, entries, end, &scan)
	})
	if errors.Is(err, errTimeUp) {
		scan.More = true
		return scan, nil
	}
	return scan, err
}

func (w *Watcher) away(ctx context.Context, place *references.Place, err error, scan *Scan) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.fail(scan, place, "", err.Error())
	return w.h.store.Away(ctx, place.Name, err.Error())
}

func (w *Watcher) fail(scan *Scan, place *references.Place, path, text string) {
	w.log.Warn("a file is not taken", "place", place.Name, "path", path, "reason", text)
	scan.Failed = append(scan.Failed, ScannedFile{Place: place.Name, Path: path, Error: text})
}

func (w *Watcher) look(
	ctx context.Context, place *references.Place, entries []references.Entry, end time.Time, scan *Scan,
) error {
	var all []uploads.Listed
	for _, e := range entries {
		switch {
		case !utf8.ValidString(e.Path) || strings.ContainsRune(e.Path, 0):
			w.fail(scan, place, strings.ToValidUTF8(e.Path, "\ufffd"), "its name must be valid UTF-8")
		case e.Empty:
			scan.Waiting++
		default:
			all = append(all, uploads.Listed{Path: e.Path, Fingerprint: e.Fingerprint, Whole: e.Whole})
		}
	}
	scan.Files += len(entries)
	due, waiting, err := w.h.store.Look(ctx, place.Name, all, w.cfg.Settle)
	if err != nil {
		return err
	}
	scan.Waiting += waiting
	for _, path := range due {
		if !end.IsZero() && time.Now().After(end) {
			scan.More = true
			return nil
		}
		if err := w.takeOne(ctx, place, path, scan); err != nil {
			return err
		}
	}
	return nil
}

// takeOne makes an upload of a file, and notes why where it does not.
func (w *Watcher) takeOne(ctx context.Context, place *references.Place, path string, scan *Scan) error {
	from := uploads.Origin{Place: place.Name, Path: path}
	id, err := w.take(ctx, place, from)
	switch {
	case err == nil:
		w.log.Info("a file is taken", "place", place.Name, "path", path, "upload", id)
		scan.Taken = append(scan.Taken, ScannedFile{Place: place.Name, Path: path, JobID: id.String()})
		return nil
	case ctx.Err() != nil:
		return err
	case errors.Is(err, uploads.ErrTaken):
		scan.Same++
		return w.h.store.NotTaken(ctx, from, uploads.WatchSame, nil)
	}
	text, state := w.reason(err)
	w.fail(scan, place, path, text)
	return w.h.store.NotTaken(ctx, from, state, &text)
}

func (w *Watcher) take(ctx context.Context, place *references.Place, from uploads.Origin) (id uuid.UUID, err error) {
	in := &incoming{h: w.h, ctx: ctx, begun: time.Now()}
	if in.form.processor = w.cfg.Processor; in.form.processor == "" {
		in.form.processor = schema.Copy
	}
	if in.id, err = w.h.store.Begin(ctx, w.cfg.User, "", 0); err != nil {
		return id, err
	}
	err = in.fetch(from.Path, place.Open)
	if err == nil {
		var received uploads.Received
		if received, err = in.received(); err == nil {
			received.From = &from
			err = w.h.store.Complete(ctx, in.id, received)
		}
	}
	if err != nil {
		w.h.abandon(in.id)
	}
	return in.id, err
}

// reason says why a file was not taken, and what becomes of it: what it is itself the reason of does not change until
// the file does.
func (w *Watcher) reason(err error) (text, state string) {
	var told *httpapi.Problem
	var table *tabular.ErrTable
	var limit *uploads.LimitError
	var broken *references.Error
	switch {
	case errors.As(err, &table):
		return table.Text, uploads.WatchFailed
	case errors.Is(err, uploads.ErrTooLarge):
		return fmt.Sprintf("it has more than %d bytes", w.h.store.Limits().File), uploads.WatchFailed
	case errors.As(err, &told):
		text := told.Detail
		for _, fault := range told.Errors {
			text += fmt.Sprintf("; %s %s", fault.Field, fault.Rule)
		}
		return text, uploads.WatchFailed
	case errors.As(err, &limit):
		return limit.Rule, uploads.WatchWaiting
	case errors.As(err, &broken):
		return "the file " + broken.Rule, uploads.WatchWaiting
	case errors.Is(err, references.ErrChanged):
		return "it changed while it was read", uploads.WatchWaiting
	case errors.Is(err, uploads.ErrProcessor):
		return "the processor " + uploadsapi.ProcessorRule, uploads.WatchWaiting
	case errors.Is(err, uploads.ErrStopped):
		return "it comes too slowly", uploads.WatchWaiting
	case errors.Is(err, references.ErrAway):
		return references.ErrAway.Error(), uploads.WatchWaiting
	}
	w.log.Error("a file cannot be taken", "error", err)
	return "taking it has failed: the server's log has the cause", uploads.WatchWaiting
}

// scanTime bounds a look that a request asks for.
const scanTime = 15 * time.Second

// ScanRequest asks for a look.
type ScanRequest struct {
	httpapi.Params
	Body *queueapi.NoMembers
}

// WatchedFilesRequest are the parameters of a list of files.
type WatchedFilesRequest struct {
	httpapi.Params
	State string `query:"state" enum:"WAITING,TAKEN,SAME,FAILED" doc:"Only files in this state"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many files there are at most"`
}

// WatchedFile is a file in a watched place.
type WatchedFile struct {
	Place     string    `json:"place"`
	Path      string    `json:"path" doc:"In the place; empty: the place itself, which cannot be listed"`
	State     string    `json:"state" enum:"WAITING,TAKEN,SAME,FAILED"`
	JobID     *string   `json:"jobId" doc:"The upload that it has become"`
	LastError *string   `json:"last_error" doc:"Why it is not taken"`
	SeenAt    time.Time `json:"seen_at" doc:"When it was seen to have changed"`
}

// WatchedFiles are files in watched places.
type WatchedFiles struct {
	Items []WatchedFile `json:"items" nullable:"false"`
}

// Register adds the routes, for admins.
func (w *Watcher) Register(api endpoint.API) {
	api = api.At("/ingestion", "Uploads")
	endpoint.Post(api, endpoint.Operation{
		ID: "scan-ingestion", Path: "/scan", Summary: "Look at watched places now", Scope: auth.Admin,
		Text: "Takes files as the look in the background does, which comes anyway, and says what it did. It begins to take no " +
			"more files after 15 seconds. The body may be left out.",
	}.WithoutBody(), func(ctx context.Context, _ *ScanRequest) (Scan, error) { return w.Scan(ctx, time.Now().Add(scanTime)) })
	endpoint.Get(api, endpoint.Operation{
		ID: "list-ingestion-files", Path: "/files", Summary: "Files in watched places", Scope: auth.Admin,
		Text: "First those that cannot be taken, with the reason, then the others, those that changed last first.",
	}, w.files)
}

func (w *Watcher) files(ctx context.Context, in *WatchedFilesRequest) (WatchedFiles, error) {
	out := WatchedFiles{Items: []WatchedFile{}}
	all, err := w.h.store.WatchedFiles(ctx, in.State, in.Limit)
	for _, f := range all {
		item := WatchedFile{Place: f.Place, Path: f.Path, State: f.State, LastError: f.LastError, SeenAt: uploadsapi.At(f.SeenAt)}
		if f.Upload != nil {
			id := f.Upload.String()
			item.JobID = &id
		}
		out.Items = append(out.Items, item)
	}
	return out, err
}
