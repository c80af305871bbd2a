package pipeline

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
)

// problem turns an error into what the caller is told.
func (s *Service) problem(err error) *httpapi.Problem {
	switch {
	case errors.Is(err, mirror.ErrUnderWay):
		s.deps.Log.Warn("a query waits for a projector to complete its batch", "error", err)
		return httpapi.NewProblem(http.StatusServiceUnavailable,
			"events are being counted, and no projector has completed that yet; try again").
			WithHeader("Retry-After", "1")
	case errors.Is(err, mirror.ErrUnheard):
		s.deps.Log.Warn("a query waits for the projectors' checkpoints", "error", err)
		return httpapi.NewProblem(http.StatusServiceUnavailable,
			"NATS has yet to say up to where events are counted; try again").WithHeader("Retry-After", "1")
	case errors.Is(err, mirror.ErrNotLoaded):
		err = fmt.Errorf("%w: %w", reads.ErrUnavailable, err)
	}
	return reads.Problem(s.deps.Log, err)
}
