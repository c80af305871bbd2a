package trackingapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Conflict is the problem document of a move that the item's status does not
// allow.
type Conflict struct {
	httpapi.Problem
	Filename      string `json:"filename"`
	Shard         int32  `json:"shard"`
	Stage         string `json:"stage"`
	CurrentStatus string `json:"current_status" doc:"The item's status at the stage" enum:"new,started,done,failed"`
}

// NewConflict describes what a move met.
func NewConflict(r tracking.Result, stage shard.Stage, move shard.Move) *Conflict {
	rule := "an item that is " + r.Status.String() + " cannot be moved so"
	switch r.Outcome {
	case shard.Fenced:
		rule = "the item has gone on, or another worker has it"
	case shard.Paused:
		rule = "the stage is paused"
	case shard.Full:
		rule = "as many items are started as the stage allows at a time"
	case shard.Forbidden:
		if r.Status == shard.Started && move == shard.Start {
			rule = "the item is started already, by another worker"
		}
	}
	p := httpapi.NewProblem(http.StatusConflict, fmt.Sprintf("%s of %s/%d at %s: %s", move, r.Filename, r.Shard, stage, rule),
		httpapi.FieldError{Field: "status", Code: r.Outcome.String(), Rule: rule})
	return &Conflict{Problem: *p, Filename: r.Filename, Shard: r.Shard, Stage: stage.String(), CurrentStatus: r.Status.String()}
}

// Problem turns an error into what the caller is told.
func Problem(log *slog.Logger, err error) error {
	var invalid *shard.Invalid
	var refused *tracking.Refused
	var told huma.StatusError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &invalid):
		return httpapi.NewProblem(http.StatusBadRequest, "the request breaks a rule", httpapi.FieldError(*invalid))
	case errors.As(err, &refused):
		return NewConflict(refused.Result, refused.Stage, refused.Move)
	case errors.Is(err, tracking.ErrNoFile):
		return NotFound("filename", "must be a file that was registered")
	case errors.Is(err, tracking.ErrCancelled):
		return httpapi.NewProblem(http.StatusConflict, "the file was cancelled", httpapi.FieldError{Field: "filename", Code: "cancelled", Rule: "must not be cancelled"})
	case ours(err):
		return httpapi.Internal(err)
	}
	log.Warn("shard tracking: Postgres is away or too slow", "error", err)
	return httpapi.NewProblem(http.StatusServiceUnavailable, "Postgres is away or too slow; send the same request again: what it has done already is not done twice").
		WithHeader("Retry-After", "1")
}

// NotFound is the problem of what is not there.
func NotFound(field, rule string) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusNotFound, "there is no such item", httpapi.FieldError{Field: field, Code: "not_found", Rule: rule})
}

// ours tells whether Postgres has understood and refused a statement, which is
// a mistake of this program.
func ours(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	for _, class := range []string{"08", "25", "40", "53", "55", "57", "58"} { // connection, state, conflict, resources, locks, shutdown, system
		if strings.HasPrefix(e.Code, class) {
			return false
		}
	}
	return true
}
