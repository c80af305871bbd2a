package reads

import (
	"cmp"
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Get registers an operation that reads, for callers with the API's scope. Its id is "get-" and the name, which is
// also its endpoint in what is measured. Requests are checked against what knows the rules: see Resolve.
func Get[In, Out any, P endpoint.Request[In], S any](
	api endpoint.API, rules S, name, path, summary string, do func(context.Context, In) (Out, error),
) {
	endpoint.Get[In, Out, P](api, operation(api, rules, name, path, summary), func(ctx context.Context, in *In) (Out, error) {
		return do(ctx, *in)
	})
}

func operation[S any](api endpoint.API, rules S, name, path, summary string) endpoint.Operation {
	return endpoint.Operation{
		ID: "get-" + name, Name: name, Path: path, Summary: summary, Scope: cmp.Or(api.Scope, auth.Read),
		Middlewares: huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
			next(huma.WithValue(ctx, rulesKey[S]{}, rules))
		}},
	}
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
