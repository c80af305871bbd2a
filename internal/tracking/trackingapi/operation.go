// Package trackingapi is what the commands and the reads of shard tracking
// share over HTTP: how an operation is registered, and what its errors look
// like to a caller.
package trackingapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Base is the path of shard tracking below the API's.
const Base = "/pipeline"

// timeout bounds a request: below the time after which callers and proxies
// give up.
const timeout = 25 * time.Second

// maxBody is the size of a request in bytes: 5,000 items, whose names have up to
// 255 bytes, fit.
const maxBody = 2 << 20

// API registers operations.
type API struct {
	Server *httpapi.Server
	Auth   *auth.Auth
	Log    *slog.Logger
}

// Body is a request with a document.
type Body[T any] struct{ Body T }

// Output is an answer with a document.
type Output[T any] struct{ Body T }

// Operation describes an operation in short.
type Operation struct {
	ID, Path, Summary, Text string // the path is below Base
	Scope                   auth.Scope
}

// Get registers an operation that reads.
func Get[In, Out any](a API, op Operation, do func(context.Context, *In) (Out, error)) {
	handle(a, huma.Operation{
		OperationID: op.ID, Method: http.MethodGet, Path: Base + op.Path, Summary: op.Summary, Description: op.Text,
		Errors: []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusServiceUnavailable},
	}, op.Scope, do)
}

// Post registers an operation that changes something.
func Post[In, Out any](a API, op Operation, do func(context.Context, *In) (Out, error)) {
	handle(a, huma.Operation{
		OperationID: op.ID, Method: http.MethodPost, Path: Base + op.Path, Summary: op.Summary, Description: op.Text,
		Errors: []int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusConflict,
			http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusServiceUnavailable,
		},
		Middlewares: huma.Middlewares{httpapi.OnlyJSON}, MaxBodyBytes: maxBody,
	}, op.Scope, do)
}

func handle[In, Out any](a API, op huma.Operation, scope auth.Scope, do func(context.Context, *In) (Out, error)) {
	op.Tags = []string{"Shards"}
	huma.Register(a.Server.API(), a.Auth.Protect(op, scope), func(ctx context.Context, in *In) (*Output[Out], error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			return nil, Problem(a.Log, err)
		}
		return &Output[Out]{out}, nil
	})
}
