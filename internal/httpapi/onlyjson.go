package httpapi

import (
	"mime"

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
