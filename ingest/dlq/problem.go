package dlq

import (
	"errors"
	"net/http"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// problem turns an error into what the caller is told. Whatever is not the
// request's fault is that of NATS, which is all that the service works with.
func (s *Service) problem(err error) error {
	var invalid *Invalid
	switch {
	case errors.As(err, &invalid):
		return endpoint.BadRequest(*invalid)
	case errors.Is(err, ErrNotFound):
		return httpapi.NewProblem(http.StatusNotFound, err.Error())
	case errors.Is(err, client.ErrStreamFull):
		return httpapi.NewProblem(http.StatusServiceUnavailable, "the event stream is full; send the same request "+
			"again when its limits have been raised or old events have expired",
			httpapi.FieldError{Code: "stream_full", Rule: err.Error()}).WithHeader("Retry-After", "10")
	}
	s.log.Warn("dead letters could not be worked on", "error", err)
	return httpapi.NewProblem(http.StatusServiceUnavailable,
		"NATS does not answer, or too slowly; send the same request again: what it has done already is not done twice").
		WithHeader("Retry-After", "2")
}
