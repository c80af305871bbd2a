package httpapi

import (
	"mime"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
)

// OnlyJSON is the middleware of huma operations with a body. It refuses bodies
// of other types, and those without a type, which huma would take for JSON:
// pages of other origins can send those unasked.
func OnlyJSON(ctx huma.Context, next func(huma.Context)) {
	const want = "application/json"
	header := ctx.Header("Content-Type")
	if got, _, err := mime.ParseMediaType(header); err != nil || got != want {
		_, w := humachi.Unwrap(ctx)
		WriteProblem(w, UnsupportedType(header, want))
		return
	}
	next(ctx)
}

var sameOrigin http.CrossOriginProtection

// JSONOrNothing is OnlyJSON for operations whose body may be left out. A page of
// another origin can send a request without a body unasked, too: it is refused by
// what its browser says about it.
func JSONOrNothing(ctx huma.Context, next func(huma.Context)) {
	r, w := humachi.Unwrap(ctx)
	if ctx.Header("Content-Type") != "" || r.ContentLength != 0 {
		OnlyJSON(ctx, next)
		return
	}
	if err := sameOrigin.Check(r); err != nil {
		WriteProblem(w, NewProblem(http.StatusForbidden, "a page of another origin has sent the request", FieldError{
			Field: "Origin", Code: "origin", Rule: "must be that of the server, or the request must have a JSON body",
		}))
		return
	}
	next(ctx)
}
