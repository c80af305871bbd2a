// Package acts answers reads of bulk actions: what they have done, and what a new one would match.
package acts

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/acts/items"
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
	items  *items.Subject
	owners userqueue.Owners
}

// New returns the handler; Register puts it on a server.
func New(store *acts.Store, of *items.Subject, owners userqueue.Owners) *Handler {
	return &Handler{store, of, owners}
}

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
		"The first 1,000 that failed, and the first 1,000 that were skipped, but for private items of others. "+
			"queue and id are of items; sources and jobs have source_id and job_id, an empty queue and the id 0."), h.members)
	api.Base, api.Tag = "/crawl-errors", "Batches"
	endpoint.Get(api, read("count-crawl-errors-retry", "/retry", "How many errors of batches would be tried again",
		"The number of errors that the filter matches now and that are not being tried again. Nothing is done."),
		h.countErrors)
	api.Base, api.Tag = "/failures", "Acts"
	endpoint.Get(api, read("group-failures", "", "Failed items by their errors",
		"Errors that differ only in numbers, ids and addresses are one group. With a state of items that have not "+
			"ended, those that have failed before."), h.failures)
	recrawl.DescribeActs(api.Server.API().OpenAPI().Components.Schemas, h.store, recrawl.Act{})
}

// ActsRequest are the parameters of a list.
type ActsRequest struct {
	httpapi.Params
	Limit  int   `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor int64 `query:"cursor" minimum:"0" doc:"next_cursor of the page before"`
}

// Acts is a page of acts.
type Acts struct{ reads.List[recrawl.Act] }

func (h *Handler) list(ctx context.Context, in *ActsRequest) (Acts, error) {
	all, err := h.store.List(ctx, in.Cursor, in.Limit+1)
	shown := make([]recrawl.Act, len(all))
	s := h.sight()
	for i, a := range all {
		if shown[i], err = s.record(ctx, a); err != nil {
			return Acts{}, err
		}
	}
	return Acts{reads.ListOf(reads.Numbers, shown, in.Limit, func(a recrawl.Act) int64 { return a.ID })}, err
}

// CountActRequest is a filter with what is to be done.
type CountActRequest struct {
	httpapi.Params
	Move string `query:"move" required:"true" enum:"retry,cancel"`
	items.ItemFilter
}

func (h *Handler) count(ctx context.Context, in *CountActRequest) (acts.ActCount, error) {
	return h.store.Count(ctx, acts.Request{Subject: items.Name, Move: in.Move, Filter: in.ItemFilter})
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
	return append(r.Params.Resolve(ctx), endpoint.Refused(r.filter().Check())...)
}

func (h *Handler) countErrors(ctx context.Context, in *CountErrorsRequest) (acts.ActCount, error) {
	return h.store.Count(ctx, in.filter().Request())
}

// ActPath names an act.
type ActPath struct {
	httpapi.Params
	ID int64 `path:"id" minimum:"1"`
}

func (h *Handler) one(ctx context.Context, in *ActPath) (recrawl.Act, error) {
	a, err := h.store.Get(ctx, in.ID)
	if err != nil {
		return recrawl.Act{}, known(err)
	}
	return h.sight().record(ctx, a)
}

func known(err error) error {
	if errors.Is(err, acts.ErrNoAct) {
		return endpoint.NotFound("id", acts.Missing)
	}
	return err
}

// ActMember is a member of an act that was not moved.
type ActMember struct {
	Queue    string `json:"queue" doc:"Of an error of a batch: the one that it is tried again in; empty: it is gone, or has none. Empty for sources and jobs" example:"mail"`
	ID       int64  `json:"id" doc:"Of an item or an error of a batch; 0: it has none, as sources and jobs"`
	Key      string `json:"key,omitempty"`
	Filename string `json:"filename,omitempty" doc:"Of a shard"`
	Shard    *int32 `json:"shard,omitempty" doc:"Of a shard"`

	JobID      *string `json:"job_id,omitempty" doc:"Of an error of a batch: the one of the batch; of a job: its own"`
	BatchIndex *int32  `json:"batch_index,omitempty" doc:"Of an error of a batch"`
	Position   *int32  `json:"position,omitempty" doc:"Of an error of a batch"`

	SourceID   string `json:"source_id,omitempty" doc:"Of a source, or a job"`
	SourceName string `json:"source_name,omitempty" doc:"Of a source, or a job; absent: there is none any more"`

	Outcome string `json:"outcome" enum:"skipped,failed"`
	Reason  string `json:"reason" example:"is started"`
}

// ActMembers are members of an act.
type ActMembers struct {
	Items []ActMember `json:"items" nullable:"false"`
}

// members leaves out items that the caller may not see.
func (h *Handler) members(ctx context.Context, in *ActPath) (ActMembers, error) {
	all, err := h.store.Members(ctx, in.ID)
	out := ActMembers{make([]ActMember, 0, len(all))}
	s := h.sight()
	for _, m := range all {
		var details struct {
			ActMember
			Group string `json:"group"`
		}
		if err := json.Unmarshal(m.Details, &details); err != nil {
			return out, err
		}
		member := details.ActMember
		shown, err := s.shows(ctx, member.Queue, details.Group)
		if err != nil {
			return out, err
		}
		if shown {
			member.Outcome, member.Reason = m.Outcome, m.Reason
			out.Items = append(out.Items, member)
		}
	}
	return out, known(err)
}

// FailuresRequest is a filter of failures.
type FailuresRequest struct {
	httpapi.Params
	items.ItemFilter
}

func (h *Handler) failures(ctx context.Context, in *FailuresRequest) (items.Failures, error) {
	visible, err := userqueue.VisibleTo(ctx, h.owners, in.Queue)
	if err != nil {
		return items.Failures{}, err
	}
	return h.items.Failures(ctx, in.ItemFilter, visible)
}
