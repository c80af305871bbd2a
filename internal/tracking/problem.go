package tracking

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Path is the path of shard tracking below the API's.
const Path = "/pipeline"

// API returns what registers the operations of shard tracking.
func API(api endpoint.API) endpoint.API {
	api = api.At(Path, "Shards")
	api.Known = KnownError
	return api
}

// Conflict is the problem document of a move that the item's status does not
// allow.
type Conflict struct {
	httpapi.Problem
	Filename      string `json:"filename"`
	Shard         int32  `json:"shard"`
	Stage         string `json:"stage"`
	CurrentStatus string `json:"current_status" doc:"The item's status at the stage" enum:"new,started,done,failed"`
}

// needs says from which statuses each move is made.
var needs = map[item.Move]string{
	item.Start: "new", item.Complete: "started", item.Fail: "new or started", item.Retry: "failed",
	item.Release: "started", item.Again: "started",
}

// NewConflict describes what a move met.
func NewConflict(r queue.Result, stage shard.Stage, move item.Move) *Conflict {
	rule := fmt.Sprintf("must be %s, and is %s", needs[move], r.Status)
	switch {
	case r.Outcome == item.Fenced:
		rule = "must be of the generation and the worker named: another worker holds the item, or it has ended"
	case r.Outcome == item.Paused:
		rule = "must not be started while the stage is paused"
	case r.Outcome == item.Full:
		rule = "must not be started while as many are as the stage allows"
	case move == item.Start && r.Status == item.Started:
		rule = "must be new, and is started; who started it may do so again, named by worker or the header " +
			"Idempotency-Key"
	}
	p := httpapi.NewProblem(http.StatusConflict, fmt.Sprintf("%s/%d cannot be moved by %s at %s", r.Name,
		r.Part, move, stage),
		httpapi.FieldError{Field: "status", Code: r.Outcome.String(), Rule: rule})
	return &Conflict{
		Problem: *p, Filename: r.Name, Shard: r.Part, Stage: stage.String(),
		CurrentStatus: r.Status.String(),
	}
}

// KnownError turns an error of shard tracking into what the caller is told, and is nil for others.
func KnownError(err error) error {
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		return NewConflict(refused.Result, refused.Stage, refused.Move)
	case errors.Is(err, ErrNoFile):
		return endpoint.NotFound("filename", "must be a file that was registered")
	case errors.Is(err, ErrCancelled):
		return httpapi.NewProblem(http.StatusConflict, "the file was cancelled",
			httpapi.FieldError{Field: "filename", Code: "cancelled", Rule: "must not be cancelled"})
	}
	return nil
}
