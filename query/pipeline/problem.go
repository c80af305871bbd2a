package pipeline

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/pipeline/store"
	"github.com/millrace-io/millrace/schemas/event"
)

// problem turns an error into what the caller is told.
func (s *Service) problem(err error) *httpapi.Problem {
	var ready *httpapi.Problem
	switch {
	case errors.As(err, &ready):
		return ready
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, mirror.ErrNotLoaded), errors.Is(err, context.DeadlineExceeded):
		s.deps.Log.Warn("a query failed because the database is away or too slow", "error", err)
		return httpapi.NewProblem(http.StatusServiceUnavailable, "the database is away or too slow; try again").WithHeader("Retry-After", "1")
	case errors.Is(err, mirror.ErrUnderWay):
		s.deps.Log.Warn("a query waits for a projector to complete its batch", "error", err)
		return httpapi.NewProblem(http.StatusServiceUnavailable, "events are being counted, and no projector has completed that yet; try again").
			WithHeader("Retry-After", "1")
	case errors.Is(err, context.Canceled):
		return httpapi.NewProblem(http.StatusServiceUnavailable, "the request was cancelled")
	}
	return httpapi.Internal(err)
}

// breaks is the problem of a parameter that breaks a rule.
func breaks(field, code, rule string) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, "a parameter breaks a rule", httpapi.FieldError{Field: field, Code: code, Rule: rule})
}

// checkName checks a name that events carry. Empty means that it does not
// filter.
func checkName(field, name string) *httpapi.Problem {
	switch {
	case len(name) > event.MaxName:
		return breaks(field, "length", "must be at most 256 bytes")
	case !utf8.ValidString(name):
		return breaks(field, "utf8", "must be valid UTF-8")
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return breaks(field, "control_character", "must not contain control characters")
	}
	return nil
}
