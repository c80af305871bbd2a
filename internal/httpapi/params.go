package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/nearest"
)

// Params is embedded in the request of every operation that huma handles. It
// refuses query parameters that the operation does not have, together with
// everything else that is wrong with the request. A request with rules of its own
// has a Resolve of its own, and returns these errors among others.
type Params struct{}

// Resolve implements huma.Resolver.
func (Params) Resolve(ctx huma.Context) (errs []error) {
	at := ctx.URL()
	for _, e := range unknownParams(at.Query(), paramsOf(ctx.Operation())) {
		errs = append(errs, e)
	}
	return errs
}

// paramsOf lists the query parameters that an operation describes.
func paramsOf(op *huma.Operation) (names []string) {
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

// shownParams bounds the unknown parameters that an answer names.
const shownParams = 20

func unknownParams(query url.Values, known []string) (errs []FieldError) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains(known, name) || len(errs) == shownParams {
			continue
		}
		errs = append(errs, FieldError{Field: name, Code: "parameter_unknown", Rule: unknownRule(name, known)})
	}
	return errs
}

func unknownRule(name string, known []string) string {
	if name == "access_token" {
		return "is taken by /live and /live/sse alone: send the token in the header Authorization"
	}
	if near, _ := nearest.Name(name, known); near != "" {
		return fmt.Sprintf("is not a query parameter here: the nearest is %s, of %s", near, strings.Join(known, ", "))
	}
	return "is not a query parameter here: there are none"
}

// onlyParams is the middleware of a plain handler. It refuses query parameters
// other than the known ones.
func onlyParams(known ...string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != "" {
				if errs := unknownParams(r.URL.Query(), known); len(errs) > 0 {
					drain(r)
					WriteProblem(w, NewProblem(http.StatusBadRequest, "a query parameter is unknown", errs...))
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}
