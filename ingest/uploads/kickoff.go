package uploads

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/uploads"
	"github.com/millrace-io/millrace/internal/uploads/uploadsapi"

	schema "github.com/millrace-io/millrace/schemas/uploads"
)

// maxKickoffs is how many slices this process runs for callers at one time. Each has a connection.
const maxKickoffs = 2

// KickoffUploadRequest asks for a slice of work.
type KickoffUploadRequest struct {
	uploadsapi.UploadID
	DurationMs int `query:"durationMs" minimum:"1" maximum:"20000" default:"5000" doc:"How long it may take"`
}

// UploadSlice is what a slice of work has done.
type UploadSlice struct {
	JobID      string `json:"jobId"`
	Processed  int    `json:"processed" doc:"Items that were processed in this slice: of a queue, those to which workers gave final statuses meanwhile"`
	TookMs     int64  `json:"took_ms"`
	QueueState string `json:"queue_state" enum:"QUEUED,RUNNING,PAUSED,DONE,FAILED" doc:"Of the upload, behind it"`
	Pending    int32  `json:"pending" doc:"Items that are pending, behind it"`
}

func (h *Handler) kickoff(ctx context.Context, in *KickoffUploadRequest) (out UploadSlice, err error) {
	who, begun := uploadsapi.ViewerFrom(ctx), time.Now()
	j, err := h.store.Get(ctx, who, in.UUID())
	if err != nil {
		return out, err
	}
	if j.State == schema.Paused || j.CancelledAt != nil {
		return out, &uploads.StateError{State: j.State, Rule: "the upload must be neither PAUSED nor cancelled"}
	}
	out.JobID = in.JobID
	if schema.Open(j.State) {
		select {
		case h.kickoffs <- struct{}{}:
			defer func() { <-h.kickoffs }()
		default:
			return out, busy("the server runs as many slices as it does at one time")
		}
		alone, err := h.store.Alone(ctx, j, func() error {
			end := begun.Add(time.Duration(in.DurationMs) * time.Millisecond)
			out.Processed, err = h.slice(ctx, j, end)
			return err
		})
		if err != nil {
			return out, err
		}
		if !alone {
			return out, busy("a slice of this upload is under way already")
		}
	}
	if j, err = h.store.Get(ctx, who, in.UUID()); err != nil {
		return out, err
	}
	out.TookMs, out.QueueState, out.Pending = time.Since(begun).Milliseconds(), j.State, j.Counts[schema.Pending]
	return out, nil
}

// slice processes what is persisted, until there is no more or the end has come.
func (h *Handler) slice(ctx context.Context, j uploads.Job, end time.Time) (int, error) {
	if j.State == schema.Queued {
		var err error
		if j, err = h.store.Start(ctx, j.No); err != nil {
			return 0, stopped(err)
		}
	}
	if j.Queued() {
		return h.watch(ctx, j, end)
	}
	n, err := moveUntil(ctx, h.store, j, schema.StatusDone, h.bounds, end)
	if err != nil {
		return n, stopped(err)
	}
	if _, finished, err := h.store.Finish(ctx, j); err != nil || finished {
		return n, err
	}
	return h.watch(ctx, j, end) // other rows are DONE as soon as they are persisted
}

// kickoffLook is how often a slice that workers work on is looked at.
const kickoffLook = 50 * time.Millisecond

// watch returns how many items have got final statuses until all have, or the end has come: workers have them, or they
// are persisted.
func (h *Handler) watch(ctx context.Context, j uploads.Job, end time.Time) (int, error) {
	begun, tick := j.Processed(), time.NewTicker(kickoffLook)
	defer tick.Stop()
	for {
		now, err := h.store.Get(ctx, uploads.Viewer{All: true}, j.ID)
		if err != nil {
			return 0, err
		}
		n := max(int(now.Processed()-begun), 0) // fewer: some were reprocessed
		if !schema.Open(now.State) || now.State == schema.Paused || now.ReadAll && now.Processed() == now.Total() {
			return n, nil
		}
		if !time.Now().Before(end) {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-tick.C:
		}
	}
}

// stopped takes it for no error that an upload was paused or has ended meanwhile.
func stopped(err error) error {
	if errors.Is(err, uploads.ErrStopped) {
		return nil
	}
	return err
}

func busy(rule string) error {
	return httpapi.NewProblem(http.StatusServiceUnavailable, rule+"; try again").WithHeader("Retry-After", "1")
}
