package dlq

import (
	"context"
	"errors"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// LetterFilter are a Filter as callers write it.
type LetterFilter struct {
	Stream  string `query:"stream" json:"stream,omitempty" doc:"Only letters of messages that came from this stream" example:"EVENTS"`
	Code    string `query:"code" json:"code,omitempty" doc:"Only letters that break this rule" example:"stage_unknown"`
	Field   string `query:"field" json:"field,omitempty" doc:"Only letters of which this field breaks a rule" example:"stage"`
	Subject string `query:"subject" json:"subject,omitempty" doc:"Only letters of messages that came on this subject; * and > are wildcards as in NATS" example:"events.cooked.*"`
	Since   string `query:"since" json:"since,omitempty" doc:"Only letters of messages that their stream received at or after this time, RFC 3339" example:"2026-02-10T00:00:00Z"`
	Until   string `query:"until" json:"until,omitempty" doc:"Only letters of messages that their stream received before this time" example:"2026-02-11T00:00:00Z"`
}

func (p LetterFilter) filter() (f Filter, err error) {
	f = Filter{Stream: p.Stream, Code: p.Code, Field: p.Field, Subject: p.Subject}
	var errs [2]error
	f.Since, errs[0] = endpoint.ParseTime("since", p.Since)
	f.Until, errs[1] = endpoint.ParseTime("until", p.Until)
	return f, errors.Join(errs[0], errs[1])
}

// ListRequest are the parameters of GET /dlq.
type ListRequest struct {
	httpapi.Params
	LetterFilter
	Order  string `query:"order" enum:"newest,oldest" default:"newest" doc:"Which letters come first"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many letters a page has at most"`
	Cursor uint64 `query:"cursor" doc:"next_cursor of the page before, with the same filters and order"`
}

// Resolve implements huma.Resolver.
func (r *ListRequest) Resolve(ctx huma.Context) []error {
	f, err := r.filter()
	return append(r.Params.Resolve(ctx), endpoint.Faults(err, f.Check())...)
}

// ShowRequest are the parameters of GET /dlq/{id}.
type ShowRequest struct {
	httpapi.Params
	ID string `path:"id" maxLength:"600" doc:"The letter's number, or its message's stream and place there with an escaped slash: EVENTS%2F91220" example:"7"`
}

// OriginRequest are the parameters of GET /dlq/{stream}/{seq}.
type OriginRequest struct {
	httpapi.Params
	Stream string `path:"stream" maxLength:"512" doc:"The stream that the message came from" example:"EVENTS"`
	Seq    string `path:"seq" maxLength:"20" doc:"Its place there" example:"91220"`
}

// PurgeLetters is the body of POST /dlq/purge.
type PurgeLetters struct {
	IDs    []string     `json:"ids,omitempty" maxItems:"1000" doc:"Letters, each by its number or by the stream and place of its message; instead of filter and all" example:"[\"7\",\"EVENTS/91220\"]"`
	Filter LetterFilter `json:"filter,omitempty" doc:"Letters that pass all of these; instead of ids and all"`
	All    bool         `json:"all,omitempty" doc:"All letters; instead of ids and filter"`
	DryRun bool         `json:"dry_run,omitempty" doc:"Only say what would be done"`
	Limit  int          `json:"limit,omitempty" minimum:"1" maximum:"10000" default:"1000" doc:"How many letters of a filter or of all this request takes at most"`
	Cursor string       `json:"cursor,omitempty" doc:"next_cursor of the answer before, to go on"`
}

// ReplayLetters is the body of POST /dlq/replay.
type ReplayLetters struct {
	PurgeLetters
	AsBackfill bool `json:"as_backfill,omitempty" doc:"Mark events that are too old to be taken (24 hours) as backfilled, and so take them"`
}

func (b PurgeLetters) selection() (sel Selection, err error) {
	sel = Selection{IDs: b.IDs, All: b.All, Limit: b.Limit}
	var errs [2]error
	sel.Filter, errs[0] = b.Filter.filter()
	sel.Cursor, errs[1] = ParseCursor(b.Cursor)
	return sel, errors.Join(errs[0], errs[1])
}

// Check lists what is wrong with a selection beyond its schema. A filter that
// cannot be read is one all the same.
func (b PurgeLetters) Check() []error {
	sel, err := b.selection()
	if sel.Filter.Empty() && b.Filter != (LetterFilter{}) {
		return endpoint.Faults(err)
	}
	return endpoint.Faults(err, sel.Check())
}

// Register adds the routes, for callers with the scope admin.
func (s *Service) Register(api endpoint.API) {
	api = api.At("/dlq", "Dead letters")
	api.Known = s.problem
	op := endpoint.For(auth.Admin)
	endpoint.Get(api, op("get-dead-letters", "", "Dead letters: messages that could not be processed, and why"), s.getList)
	endpoint.Get(api, op("get-dead-letter", "/{id}", "A dead letter with its headers and its body"),
		func(ctx context.Context, in *ShowRequest) (LetterDetail, error) { return s.Show(ctx, in.ID) })
	endpoint.Get(api, op("get-dead-letter-of", "/{stream}/{seq}", "The dead letter of a message of a stream"),
		func(ctx context.Context, in *OriginRequest) (LetterDetail, error) {
			return s.Show(ctx, in.Stream+"/"+in.Seq)
		})
	endpoint.Post(api, op("replay-dead-letters", "/replay",
		"Publish the messages of dead letters again, and delete these letters",
		"An event goes to the subject that it belongs on. It counts once, however often it is replayed.",
		"What would be refused again stays a letter, and the answer says why. After 503 send the same request again."),
		s.postReplay)
	endpoint.Post(api, op("purge-dead-letters", "/purge", "Delete dead letters for good"), s.postPurge)
}

func (s *Service) getList(ctx context.Context, in *ListRequest) (LetterPage, error) {
	f, err := in.filter()
	if err != nil {
		return LetterPage{}, err
	}
	return s.List(ctx, ListOptions{Filter: f, Oldest: in.Order == "oldest", Limit: in.Limit, Cursor: in.Cursor})
}

func (s *Service) postReplay(ctx context.Context, in *endpoint.Body[ReplayLetters]) (LetterReport, error) {
	sel, err := in.Body.selection()
	if err != nil {
		return LetterReport{}, err
	}
	return s.Replay(ctx, sel, ReplayOptions{DryRun: in.Body.DryRun, AsBackfill: in.Body.AsBackfill})
}

func (s *Service) postPurge(ctx context.Context, in *endpoint.Body[PurgeLetters]) (LetterReport, error) {
	sel, err := in.Body.selection()
	if err != nil {
		return LetterReport{}, err
	}
	return s.Purge(ctx, sel, in.Body.DryRun)
}
