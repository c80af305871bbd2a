package dlq

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/instant"
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
	f.Since, errs[0] = parseTime("since", p.Since)
	f.Until, errs[1] = parseTime("until", p.Until)
	return f, errors.Join(errs[0], errs[1])
}

func parseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := instant.Parse(text)
	if err != nil {
		return time.Time{}, &Invalid{field, "time_format", err.Error()}
	}
	return t, nil
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
	return append(r.Params.Resolve(ctx), faults(err, f.Check())...)
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

// check lists what is wrong with a selection beyond its schema. A filter that
// cannot be read is one all the same.
func (b PurgeLetters) check() []error {
	sel, err := b.selection()
	if sel.Filter.Empty() && b.Filter != (LetterFilter{}) {
		return faults(err)
	}
	return faults(err, sel.Check())
}

// body and output are what huma wants around a body.
type (
	body[T any] struct {
		httpapi.Params
		Body T
	}
	output[T any] struct{ Body T }
)

// Resolve implements huma.Resolver: a caller is told all that is wrong at once.
func (b *body[T]) Resolve(ctx huma.Context) []error {
	errs := b.Params.Resolve(ctx)
	if c, ok := any(b.Body).(interface{ check() []error }); ok {
		errs = append(errs, c.check()...)
	}
	return errs
}

// requestTime bounds a request: below the time after which callers and proxies
// give up.
const requestTime = 25 * time.Second

// Register adds the routes to a server, for callers with the scope admin.
func (s *Service) Register(srv *httpapi.Server, a *auth.Auth) {
	r := routes{s, srv, a}
	handle(r, huma.Operation{
		OperationID: "get-dead-letters", Method: http.MethodGet, Path: "/dlq",
		Summary: "Dead letters: messages that could not be processed, and why",
	}, func(ctx context.Context, in *ListRequest) (LetterPage, error) {
		f, err := in.filter()
		if err != nil {
			return LetterPage{}, err
		}
		return s.List(ctx, ListOptions{Filter: f, Oldest: in.Order == "oldest", Limit: in.Limit, Cursor: in.Cursor})
	})
	handle(r, huma.Operation{
		OperationID: "get-dead-letter", Method: http.MethodGet, Path: "/dlq/{id}",
		Summary: "A dead letter with its headers and its body",
	}, func(ctx context.Context, in *ShowRequest) (LetterDetail, error) { return s.Show(ctx, in.ID) })
	handle(r, huma.Operation{
		OperationID: "get-dead-letter-of", Method: http.MethodGet, Path: "/dlq/{stream}/{seq}",
		Summary: "The dead letter of a message of a stream",
	}, func(ctx context.Context, in *OriginRequest) (LetterDetail, error) {
		return s.Show(ctx, in.Stream+"/"+in.Seq)
	})
	handle(r, huma.Operation{
		OperationID: "replay-dead-letters", Method: http.MethodPost, Path: "/dlq/replay",
		Summary: "Publish the messages of dead letters again, and delete these letters",
		Description: "An event goes to the subject that it belongs on. It counts once, however often it is replayed. " +
			"What would be refused again stays a letter, and the answer says why. After 503 send the same " +
			"request again.",
	}, func(ctx context.Context, in *body[ReplayLetters]) (LetterReport, error) {
		sel, err := in.Body.selection()
		if err != nil {
			return LetterReport{}, err
		}
		return s.Replay(ctx, sel, ReplayOptions{DryRun: in.Body.DryRun, AsBackfill: in.Body.AsBackfill})
	})
	handle(r, huma.Operation{
		OperationID: "purge-dead-letters", Method: http.MethodPost, Path: "/dlq/purge",
		Summary: "Delete dead letters for good",
	}, func(ctx context.Context, in *body[PurgeLetters]) (LetterReport, error) {
		sel, err := in.Body.selection()
		if err != nil {
			return LetterReport{}, err
		}
		return s.Purge(ctx, sel, in.Body.DryRun)
	})
}

type routes struct {
	s    *Service
	srv  *httpapi.Server
	auth *auth.Auth
}

// handle registers an operation.
func handle[In, Out any, P interface {
	*In
	huma.Resolver
}](r routes, op huma.Operation, do func(context.Context, *In) (Out, error)) {
	op.Tags = []string{"Dead letters"}
	op.Errors = []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusServiceUnavailable,
	}
	if op.Method == http.MethodGet {
		op.Errors = append(op.Errors, http.StatusNotFound)
	} else {
		op.Errors = append(op.Errors, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
		op.Middlewares = huma.Middlewares{httpapi.OnlyJSON}
	}
	huma.Register(r.srv.API(), r.auth.Protect(op, auth.Admin), func(ctx context.Context, in *In) (*output[Out], error) {
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			return nil, r.s.problem(err)
		}
		return &output[Out]{out}, nil
	})
}
