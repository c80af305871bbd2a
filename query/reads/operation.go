package reads

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// API is where a system registers its operations.
type API struct {
	Server *httpapi.Server
	Auth   *auth.Auth
	Tag    string        // of the operations in the API's description
	Limit  time.Duration // of a request
	Errors []int         // of requests, beside those that all operations have
	Scope  auth.Scope    // of callers; default read
	// Took observes how many seconds requests take, by the label endpoint alone.
	Took prometheus.ObserverVec
	// Problem turns an error into what callers are told: the function Problem,
	// or one that knows errors of the system's own besides.
	Problem func(error) *httpapi.Problem
}

// Request is a type of requests.
type Request[In any] interface {
	*In
	huma.Resolver
}

// Output is a JSON answer.
type Output[T any] struct{ Body T }

// Get registers an operation that reads. Its id is "get-" and the name, which is
// also its endpoint in what is measured. Requests are checked against what knows
// the rules: see Resolve.
func Get[In, Out any, P Request[In], S any](
	api API, rules S, name, path, summary string, do func(context.Context, In) (Out, error),
) {
	op := operation(api, rules, name, path, summary)
	huma.Register(api.Server.API(), op, func(ctx context.Context, in *In) (*Output[Out], error) {
		defer prometheus.NewTimer(api.Took.WithLabelValues(name)).ObserveDuration()
		ctx, cancel := context.WithTimeout(ctx, api.Limit)
		defer cancel()
		out, err := do(ctx, *in)
		if err != nil {
			return nil, api.Problem(err)
		}
		return &Output[Out]{out}, nil
	})
}

func operation[S any](api API, rules S, name, path, summary string) huma.Operation {
	op := api.Auth.Protect(huma.Operation{
		OperationID: "get-" + name, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{api.Tag},
		Errors: append([]int{
			http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable,
		}, api.Errors...),
	}, cmp.Or(api.Scope, auth.Read))
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		next(huma.WithValue(ctx, rulesKey[S]{}, rules))
	})
	return op
}

// rulesKey is under which a request's context has what it is checked against.
type rulesKey[S any] struct{}

// Resolve returns what is wrong with a request beyond what huma finds: check is
// called with the rules that Get was called with.
func Resolve[S any](ctx huma.Context, p httpapi.Params, check func(rules S) Faults) []error {
	errs := p.Resolve(ctx)
	if rules, known := ctx.Context().Value(rulesKey[S]{}).(S); known {
		for _, e := range check(rules) {
			errs = append(errs, e)
		}
	}
	return errs
}
