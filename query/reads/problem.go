package reads

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// Problem turns an error into what the caller is told. It logs that a database
// is away; what the caller is not told of other errors, the server logs.
func Problem(log *slog.Logger, err error) *httpapi.Problem {
	var ready *httpapi.Problem
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		log.Warn("a query failed because the database is away or too slow", "error", err)
		return httpapi.NewProblem(http.StatusServiceUnavailable, "the database is away or too slow; try again").
			WithHeader("Retry-After", "1")
	case errors.Is(err, context.Canceled):
		return httpapi.NewProblem(http.StatusServiceUnavailable, "the request was cancelled")
	}
	return httpapi.Internal(err)
}
