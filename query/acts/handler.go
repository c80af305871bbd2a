// Package acts answers what bulk actions have done, and what one would be about.
package acts

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/instant"
)

// Handler answers the reads.
type Handler struct {
	store  *acts.Store
	owners userqueue.Owners
}

// New returns the handler; Register puts it on a server.
func New(store *acts.Store, owners userqueue.Owners) *Handler { return &Handler{store, owners} }

// Register adds the routes, for callers with the scope read.
func (h *Handler) Register(api endpoint.API) {
	api = api.At("/acts", "Acts")
	api.Known = tracking.KnownError
	read := endpoint.For(auth.Read)
	endpoint.Get(api, read("list-acts", "", "Bulk actions, the newest first", "They are kept for 90 days."), h.list)
	endpoint.Get(api, read("count-act", "/count", "What an act would be about",
		"The number of items that the filter matches now. Nothing is done."), h.count)
	endpoint.Get(api, read("get-act", "/{id}", "A bulk action, and how far it is", ""), h.one)
	endpoint.Get(api, read("list-act-members", "/{id}/members", "Members of an act that were not moved, and why",
		"The first 1,000 that failed, and the first 1,000 that were skipped."), h.members)
	api.Base, api.Tag = "/crawl-errors", "Batches"
	endpoint.Get(api, read("count-crawl-errors-retry", "/retry", "How many errors of batches would be tried again",
		"The number of errors that the filter matches now and that are not being tried again. Nothing is done."),
		h.countErrors)
	api.Base, api.Tag = "/failures", "Acts"
	endpoint.Get(api, read("group-failures", "", "Failed items by their errors",
		"Errors that differ only in numbers, ids and addresses are one group. With a state of items that have not "+
			"ended, those that have failed before."), h.failures)
}

// ActsRequest are the parameters of a list.
type ActsRequest struct {
	httpapi.Params
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor int64 `query:"cursor" minimum:"0" doc:"next_cursor of the page before"`
}

// Acts is a page of acts.
type Acts struct{ reads.List[acts.Act] }

func (h *Handler) list(ctx context.Context, in *ActsRequest) (Acts, error) {
	all, err := h.store.List(ctx, in.Cursor, in.Limit+1)
	return Acts{reads.ListOf(reads.Numbers, all, in.Limit, func(a acts.Act) int64 { return a.ID })}, err
}

// CountActRequest is a filter with what is to be done.
type CountActRequest struct {
	httpapi.Params
	Move string `query:"move" required:"true" enum:"retry,cancel"`
	acts.ItemFilter
}

func (h *Handler) count(ctx context.Context, in *CountActRequest) (acts.ActCount, error) {
	return h.store.Count(ctx, acts.Request{Move: in.Move, Filter: in.ItemFilter})
}

// CountErrorsRequest is a filter of errors of batches.
type CountErrorsRequest struct {
	httpapi.Params
	recrawl.ErrorFilter
	Batch int32        `query:"batch_index" minimum:"-1" default:"-1" doc:"Errors of this batch of job_id; -1: of any"`
	Since instant.Time `query:"from" format:"date-time" doc:"Errors of batches that were read then or later"`
	Until instant.Time `query:"to" format:"date-time" doc:"Errors of batches that were read before"`
}

// filter is what the parameters say.
func (r *CountErrorsRequest) filter() *recrawl.ErrorFilter {
	f := r.ErrorFilter
	if r.Batch >= 0 {
		f.BatchIndex = &r.Batch
	}
	if !r.Since.IsZero() {
		f.From = &r.Since
	}
	if !r.Until.IsZero() {
		f.To = &r.Until
	}
	return &f
}

// Resolve implements huma.Resolver.
func (r *CountErrorsRequest) Resolve(ctx huma.Context) []error {
	errs := r.Params.Resolve(ctx)
	for _, rule := range r.filter().Check() {
		errs = append(errs, httpapi.FieldError(rule))
	}
	return errs
}

func (h *Handler) countErrors(ctx context.Context, in *CountErrorsRequest) (acts.ActCount, error) {
	return h.store.Count(ctx, acts.Request{Move: acts.Retry, Errors: in.filter()})
}

// ActPath names an act.
type ActPath struct {
	httpapi.Params
	ID int64 `path:"id" minimum:"1"`
}

func (h *Handler) one(ctx context.Context, in *ActPath) (acts.Act, error) {
	a, err := h.store.Get(ctx, in.ID)
	if errors.Is(err, acts.ErrNoAct) {
		return a, endpoint.NotFound("id", acts.Missing)
	}
	return a, err
}

// ActMembers are members of an act.
type ActMembers struct {
	Items []acts.ActMember `json:"items" nullable:"false"`
}

func (h *Handler) members(ctx context.Context, in *ActPath) (ActMembers, error) {
	if _, err := h.one(ctx, in); err != nil {
		return ActMembers{}, err
	}
	all, err := h.store.Members(ctx, in.ID)
	return ActMembers{append([]acts.ActMember{}, all...)}, err
}

// FailuresRequest is a filter of failures.
type FailuresRequest struct {
	httpapi.Params
	acts.ItemFilter
}

func (h *Handler) failures(ctx context.Context, in *FailuresRequest) (acts.Failures, error) {
	visible, err := userqueue.VisibleTo(ctx, h.owners, in.Queue)
	if err != nil {
		return acts.Failures{}, err
	}
	return h.store.Failures(ctx, in.ItemFilter, visible)
}
