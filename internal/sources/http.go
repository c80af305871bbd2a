package sources

import (
	"errors"

	"github.com/millrace-io/millrace/internal/endpoint"
)

// API returns what registers the operations of sources.
func API(api endpoint.API) endpoint.API {
	api = api.At("/sources", "Sources")
	api.Known = func(err error) error {
		if errors.Is(err, ErrNotFound) {
			return endpoint.NotFound("id", "must be that of a source")
		}
		return nil
	}
	return api
}
