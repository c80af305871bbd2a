package shards

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue/queueapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

func (h *Handler) registerAdmin(api endpoint.API) {
	admin := endpoint.For(auth.Admin)
	queueapi.Switch[StageRequest[*queueapi.NoMembers]](h.queues(), api,
		admin("pause-stage", "/queues/{stage}/pause", "Hand out no items of a stage",
			"What is started goes on. The body may be left out."), true)
	queueapi.Switch[StageRequest[*queueapi.NoMembers]](h.queues(), api,
		admin("resume-stage", "/queues/{stage}/resume", "Hand out items of a stage again",
			"The body may be left out."), false)
	queueapi.Limit[StageRequest[LimitRequestBody]](h.queues(), api,
		admin("limit-stage", "/queues/{stage}/limits", "Limit what a stage does",
			"Limits that are left out stay as they are."))
	endpoint.Post(api, admin("cancel-file", "/files/{filename}/cancel", "Cancel a file",
		"Whatever it has started or in a queue fails for good, and whoever has it learns so when reporting. What is "+
			"done stays done."), h.cancel)
	endpoint.Post(api, admin("prioritize-file", "/files/{filename}/priority", "Set the priority of a file",
		"Items of higher priorities are taken first."), h.prioritize)
	endpoint.Post(api, admin("retry-failed-items", "/stages/{stage}/retry-failed",
		"Bring failed items of a stage back to new",
		"Those that pass every filter given, the longest failed first. Dead items (without attempts left, or "+
			"cancelled) only when asked for."), h.retryFailed)
	endpoint.Post(api, admin("purge-files", "/files/purge", "Drop finished files with their history",
		"Files all of whose items are done at the last stage, or that were cancelled, that have nothing under way "+
			"or in a queue, and that have not changed for the time given."), h.purge)
}

// FilePath names a file.
type FilePath struct {
	httpapi.Params
	Filename string `path:"filename" example:"20250101000000"`
}

// Resolve implements huma.Resolver.
func (p FilePath) Resolve(ctx huma.Context) []error {
	_, err := shard.Filename(p.Filename)
	return append(p.Params.Resolve(ctx), endpoint.Faults(err)...)
}

// Cancelled is the answer of a cancellation.
type Cancelled struct {
	Filename string `json:"filename"`
	Failed   int    `json:"failed" doc:"Items that failed by it"`
}

func (h *Handler) cancel(ctx context.Context, in *FilePath) (Cancelled, error) {
	name, _ := shard.Filename(in.Filename) // which Resolve has found right
	n, err := h.store.Cancel(ctx, name, auth.CallerFrom(ctx).Subject)
	return Cancelled{name, n}, err
}

// PriorityRequest sets a priority.
type PriorityRequest struct {
	FilePath
	Body struct {
		Priority int16 `json:"priority" minimum:"0" maximum:"9"`
	}
}

// Prioritized is the answer.
type Prioritized struct {
	Filename string `json:"filename"`
	Priority int16  `json:"priority"`
}

func (h *Handler) prioritize(ctx context.Context, in *PriorityRequest) (Prioritized, error) {
	name, _ := shard.Filename(in.Filename) // which Resolve has found right
	if err := h.store.SetPriority(ctx, name, in.Body.Priority); err != nil {
		return Prioritized{}, err
	}
	for _, stage := range shard.Queues {
		refs, err := h.store.Announced(ctx, stage, name)
		if err == nil {
			err = h.hands.Reorder(ctx, stage.String(), refs)
		}
		if err != nil {
			return Prioritized{}, err
		}
	}
	return Prioritized{name, in.Body.Priority}, nil
}

// RetryFailedRequest selects failed items.
type RetryFailedRequest struct {
	StagePath
	Body struct {
		Filename     string        `json:"filename,omitempty" doc:"Only of this file"`
		Prefix       string        `json:"prefix,omitempty" doc:"Only of files whose names begin so"`
		Error        string        `json:"error,omitempty" doc:"Only with an error that contains this"`
		FailedBefore *instant.Time `json:"failed_before,omitempty" format:"date-time" doc:"Only those that failed before this time"`
		IncludeDead  bool          `json:"include_dead,omitempty" doc:"Dead items too; they get as many attempts again"`
		Limit        int           `json:"limit,omitempty" minimum:"1" maximum:"100000" default:"10000"`
		DelayS       *float64      `json:"delay_s,omitempty" doc:"Seconds until they stand in the queue; default 0"`
	}
}

// Resolve implements huma.Resolver.
func (r *RetryFailedRequest) Resolve(ctx huma.Context) []error {
	_, _, err := r.parse()
	return append(r.Params.Resolve(ctx), endpoint.Faults(err)...)
}

func (r *RetryFailedRequest) parse() (f tracking.FailedFilter, delay time.Duration, err error) {
	f = tracking.FailedFilter{
		Prefix: r.Body.Prefix, Error: item.CutError(r.Body.Error), Dead: r.Body.IncludeDead,
		Limit: r.Body.Limit,
	}
	var errs [5]error
	f.Stage, errs[0] = shard.CheckQueue(r.Stage)
	delay, errs[1] = seconds(r.Body.DelayS, item.CheckDelay)
	if r.Body.Filename != "" {
		f.Filename, errs[2] = shard.Filename(r.Body.Filename)
	}
	if f.Prefix != "" {
		if broken, ok := shard.CheckFilename(f.Prefix).(*item.Invalid); ok {
			errs[3] = &item.Invalid{Field: "prefix", Code: broken.Code, Rule: broken.Rule}
		}
	}
	if r.Body.FailedBefore != nil {
		f.Before = r.Body.FailedBefore.Time
		if err := r.Body.FailedBefore.Check(); err != nil {
			errs[4] = &item.Invalid{Field: "failed_before", Code: "range", Rule: err.Error()}
		}
	}
	return f, delay, errors.Join(errs[:]...)
}

// Retried is the answer.
type Retried struct {
	Stage   string `json:"stage"`
	Retried int    `json:"retried" doc:"Items that are new again; as many as the limit: there may be more"`
}

func (h *Handler) retryFailed(ctx context.Context, in *RetryFailedRequest) (Retried, error) {
	f, delay, _ := in.parse() // which Resolve has found right
	n, err := h.store.RetryFailed(ctx, f, delay)
	return Retried{f.Stage.String(), n}, err
}

// PurgeRequest says what to drop.
type PurgeRequest struct {
	httpapi.Params
	Body struct {
		OlderThanS float64 `json:"older_than_s" doc:"Seconds since their last change; at least 60" example:"604800"`
		Limit      int     `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"1000" doc:"How many files at most"`
	}
}

// Resolve implements huma.Resolver.
func (r *PurgeRequest) Resolve(ctx huma.Context) []error {
	_, err := r.age()
	return append(r.Params.Resolve(ctx), endpoint.Faults(err)...)
}

// age is how long ago a file has changed at least that is dropped.
func (r *PurgeRequest) age() (time.Duration, error) {
	const most = 100 * 365 * 24 * 3600
	if !(r.Body.OlderThanS >= 60 && r.Body.OlderThanS <= most) {
		return 0, &item.Invalid{
			Field: "older_than_s", Code: "range",
			Rule: fmt.Sprintf("must be from 60 to %d seconds", most),
		}
	}
	return time.Duration(r.Body.OlderThanS * float64(time.Second)), nil
}

// Purged is the answer.
type Purged struct {
	Files int `json:"files" doc:"Files that were dropped; as many as the limit: there may be more"`
}

func (h *Handler) purge(ctx context.Context, in *PurgeRequest) (Purged, error) {
	age, _ := in.age() // which Resolve has found right
	n, err := h.store.Purge(ctx, time.Now().Add(-age), in.Body.Limit)
	return Purged{n}, err
}
