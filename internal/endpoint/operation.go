// Package endpoint is what the commands and the reads of all systems share over HTTP: how an operation is registered,
// bounded in time and measured, and what its errors look like to a caller. Its own problems are those of Postgres and
// NATS; a system tells of others by API.Known.
package endpoint

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// timeout bounds a request unless API.Limit does: below the time after which callers and
// proxies give up.
const timeout = 25 * time.Second

// maxBody is the size of a request in bytes: 5,000 items, whose names have up to
// 255 bytes, fit.
const maxBody = 2 << 20

// Request is what embeds httpapi.Params.
type Request[In any] interface {
	*In
	huma.Resolver
}

// API registers operations.
type API struct {
	Server *httpapi.Server
	Auth   *auth.Auth
	Log    *slog.Logger
	Base   string // of the paths, below the API's
	Tag    string // of the operations in the API's description
	// Known turns an error of the system's own into what the caller is told, and is nil for others; nil: it has none.
	Known func(error) error
	Limit time.Duration // of a request; default 25 s
	// Took observes how many seconds requests take, by the name of their operation; nil: nothing does.
	Took   prometheus.ObserverVec
	Errors []int      // of operations that read, beside those that all have; nil: 404
	Scope  auth.Scope // of callers, for package reads; default read
}

// At returns the API for operations whose paths begin with base.
func (a API) At(base, tag string) API {
	a.Base, a.Tag = base, tag
	return a
}

// For returns what describes operations for callers with a scope. The text is optional.
func For(scope auth.Scope) func(id, path, summary string, text ...string) Operation {
	return func(id, path, summary string, text ...string) Operation {
		return Operation{ID: id, Path: path, Summary: summary, Text: strings.Join(text, " "), Scope: scope}
	}
}

// Body is a request with a document.
type Body[T any] struct {
	httpapi.Params
	Body T
}

// Checked is a document that checks itself against the rules beyond its schema.
type Checked interface{ Check() []error }

// Resolve implements huma.Resolver: a caller is told all that is wrong at once.
func (b *Body[T]) Resolve(ctx huma.Context) []error {
	errs := b.Params.Resolve(ctx)
	if c, ok := any(&b.Body).(Checked); ok {
		errs = append(errs, c.Check()...)
	}
	return errs
}

// Output is an answer with a document.
type Output[T any] struct {
	Status int
	Body   T
}

// Created is an answer that may have made something: then its status is 201.
type Created interface{ Made() bool }

// Operation describes an operation in short.
type Operation struct {
	ID, Path, Summary, Text string // the path is below Base
	Name                    string // in what API.Took observes
	Scope                   auth.Scope
	Middlewares             huma.Middlewares
	MaxBody                 int64 // bytes; default 2 MiB
	// Unchecked leaves the body to its own Check: its schema is for people.
	Unchecked bool
	// Bodiless lets callers leave the body out.
	Bodiless bool
	Errors   []int // beside those that all operations of its kind have
	Status   int   // of success, where the answer is not Created; default 200
}

// WithoutBody lets callers leave the body out.
func (op Operation) WithoutBody() Operation {
	op.Bodiless = true
	return op
}

// WithoutCheck has the body checked by the code of its type alone; see Unchecked.
func (op Operation) WithoutCheck() Operation {
	op.Unchecked = true
	return op
}

// Get registers an operation that reads.
func Get[In, Out any, P Request[In]](a API, op Operation, do func(context.Context, *In) (Out, error)) {
	handle(a, a.read(op), op, do)
}

// GetRaw registers an operation that reads, and whose answer is no document of JSON. It is neither bounded nor
// measured.
func GetRaw[In, Out any, P Request[In]](
	a API, op Operation, answers map[string]*huma.Response, do func(context.Context, *In) (*Out, error),
) {
	described := a.read(op)
	described.Responses = answers
	huma.Register(a.Server.API(), a.describe(described, op), do)
}

func (a API) read(op Operation) huma.Operation {
	errs := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable,
	}
	if a.Errors == nil {
		errs = append(errs, http.StatusNotFound)
	}
	return huma.Operation{
		OperationID: op.ID, Method: http.MethodGet, Path: op.Path, Summary: op.Summary, Description: op.Text,
		Errors: append(errs, a.Errors...),
	}
}

// Post registers an operation that changes something.
func Post[In, Out any, P Request[In]](a API, op Operation, do func(context.Context, *In) (Out, error)) {
	handle(a, withBody(http.MethodPost, op), op, do)
}

// Put registers an operation that changes one thing.
func Put[In, Out any, P Request[In]](a API, op Operation, do func(context.Context, *In) (Out, error)) {
	handle(a, withBody(http.MethodPut, op), op, do)
}

func withBody(method string, op Operation) huma.Operation {
	only := httpapi.OnlyJSON
	if op.Bodiless {
		only = httpapi.JSONOrNothing
	}
	return huma.Operation{
		OperationID: op.ID, Method: method, Path: op.Path, Summary: op.Summary, Description: op.Text,
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusConflict,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
		}, op.Errors...),
		Middlewares: huma.Middlewares{only}, MaxBodyBytes: max(op.MaxBody, maxBody),
		SkipValidateBody: op.Unchecked,
	}
}

// DeleteNoContent registers an operation that deletes something, and answers 204.
func DeleteNoContent[In any, P Request[In]](a API, op Operation, do func(context.Context, *In) error) {
	deletion := a.describe(huma.Operation{
		OperationID: op.ID, Method: http.MethodDelete, Path: op.Path, Summary: op.Summary, Description: op.Text,
		DefaultStatus: http.StatusNoContent,
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusServiceUnavailable,
		},
	}, op)
	huma.Register(a.Server.API(), deletion, func(ctx context.Context, in *In) (*struct{}, error) {
		ctx, end := a.begin(ctx, op)
		defer end()
		if err := do(ctx, in); err != nil {
			return nil, a.Problem(err)
		}
		return nil, nil
	})
}

// describe puts an operation below the API's base, for callers with its scope.
func (a API) describe(op huma.Operation, of Operation) huma.Operation {
	op.Path = a.Base + op.Path
	op.Tags = []string{a.Tag}
	op.Middlewares = append(op.Middlewares, of.Middlewares...)
	return a.Auth.Protect(op, of.Scope)
}

// begin bounds a request. end has how long it took observed.
func (a API) begin(ctx context.Context, op Operation) (bounded context.Context, end func()) {
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, cmp.Or(a.Limit, timeout))
	return bounded, func() {
		cancel()
		if a.Took != nil {
			a.Took.WithLabelValues(op.Name).Observe(time.Since(begun).Seconds())
		}
	}
}

// Problem turns an error into what the caller is told.
func (a API) Problem(err error) error {
	if a.Known != nil {
		if known := a.Known(err); known != nil {
			return known
		}
	}
	return Problem(a.Log, err)
}

// Refuse answers a request of a handler of its own with what an error means for its caller.
func (a API) Refuse(w http.ResponseWriter, err error) {
	var told *httpapi.Problem
	if !errors.As(a.Problem(err), &told) {
		told = httpapi.Internal(err)
	}
	httpapi.WriteProblem(w, told)
}

// Delete registers an operation that deletes something, and tells what.
func Delete[In, Out any, P Request[In]](a API, op Operation, do func(context.Context, *In) (Out, error)) {
	handle(a, huma.Operation{
		OperationID: op.ID, Method: http.MethodDelete, Path: op.Path, Summary: op.Summary, Description: op.Text,
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
			http.StatusConflict, http.StatusServiceUnavailable,
		},
	}, op, do)
}

func handle[In, Out any](a API, op huma.Operation, of Operation, do func(context.Context, *In) (Out, error)) {
	var answer Out
	op.DefaultStatus = of.Status
	if c, creates := any(answer).(Created); creates && c.Made() {
		op.DefaultStatus = http.StatusCreated
	} else if creates {
		op.Responses = map[string]*huma.Response{
			"200": a.Server.Answer("It was there already, alike", answer),
			"201": a.Server.Answer("It was made", answer),
		}
	}
	op = a.describe(op, of)
	huma.Register(a.Server.API(), op, func(ctx context.Context, in *In) (*Output[Out], error) {
		ctx, end := a.begin(ctx, of)
		defer end()
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.Problem(err)
		}
		status := cmp.Or(of.Status, http.StatusOK)
		if c, ok := any(out).(Created); ok && c.Made() {
			status = http.StatusCreated
		}
		return &Output[Out]{status, out}, nil
	})
	onlyJSON(a.Server.API().OpenAPI().Paths[op.Path])
}

// onlyJSON takes back that a body may be bytes, which huma says of a request with a RawBody. Beside a Body it
// is the text of the same document.
func onlyJSON(path *huma.PathItem) {
	for _, op := range []*huma.Operation{path.Post, path.Put} {
		if op != nil && op.RequestBody != nil && op.RequestBody.Content["application/json"] != nil {
			delete(op.RequestBody.Content, "application/octet-stream")
		}
	}
}
