package trackingapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
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

// needs says from which statuses each move is made.
var needs = map[shard.Move]string{
	shard.Start: "new", shard.Complete: "started", shard.Fail: "new or started", shard.Retry: "failed",
	shard.Release: "started", shard.Again: "started",
}

// NewConflict describes what a move met.
func NewConflict(r tracking.Result, stage shard.Stage, move shard.Move) *Conflict {
	rule := fmt.Sprintf("must be %s, and is %s", needs[move], r.Status)
	switch {
	case r.Outcome == shard.Fenced:
		rule = "must be of the generation and the worker named: the item has gone on, or is in other hands"
	case r.Outcome == shard.Paused:
		rule = "must not be started while the stage is paused"
	case r.Outcome == shard.Full:
		rule = "must not be started while as many are as the stage allows"
	case move == shard.Start && r.Status == shard.Started:
		rule = "must be new, and is started; who started it may do so again, named by worker or the header Idempotency-Key"
	}
	p := httpapi.NewProblem(http.StatusConflict, fmt.Sprintf("%s/%d cannot be moved by %s at %s", r.Filename,
		r.Shard, move, stage),
		httpapi.FieldError{Field: "status", Code: r.Outcome.String(), Rule: rule})
	return &Conflict{
		Problem: *p, Filename: r.Filename, Shard: r.Shard, Stage: stage.String(),
		CurrentStatus: r.Status.String(),
	}
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
	case errors.Is(err, queue.ErrNoQueue):
		return NotFound("queue", "must be a queue that was made")
	case errors.Is(err, tracking.ErrNoFile):
		return NotFound("filename", "must be a file that was registered")
	case errors.Is(err, tracking.ErrCancelled):
		return httpapi.NewProblem(http.StatusConflict, "the file was cancelled",
			httpapi.FieldError{Field: "filename", Code: "cancelled", Rule: "must not be cancelled"})
	case ours(err):
		return httpapi.Internal(err)
	}
	log.Warn("shard tracking: Postgres or NATS is away or too slow", "error", err)
	return httpapi.NewProblem(
		http.StatusServiceUnavailable,
		"Postgres or NATS is away or too slow; send the same request again: what it has done already is not done twice",
	).
		WithHeader("Retry-After", "1")
}

// NotFound is the problem of what is not there.
func NotFound(field, rule string) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusNotFound, "there is no such item",
		httpapi.FieldError{Field: field, Code: "not_found", Rule: rule})
}

// Faults lists the rules that a request breaks, as its Resolve returns them, from
// the errors of checks. An error may join several; nil is none.
func Faults(checks ...error) (all []error) {
	for _, err := range checks {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, Faults(several.Unwrap()...)...)
		} else if invalid, ok := err.(*shard.Invalid); ok {
			all = append(all, httpapi.FieldError(*invalid))
		}
	}
	return all
}

// transient are classes and codes of Postgres' errors that pass by themselves:
// of the connection and its state, of conflicts, resources, locks, shutdowns and
// the system; and those of a database that a migration has not reached yet, or
// has just changed under a prepared statement.
var transient = []string{
	"08", "25", "40", "53", "55", "57", "58",
	"3F", "42P01", "42703", "42704", "42883", "42P10", "0A000",
}

// ours tells whether Postgres has understood and refused a statement, which is
// a mistake of this program. One that lets nobody in, or has no database yet,
// has not been told any.
func ours(err error) bool {
	var e *pgconn.PgError
	var outside *pgconn.ConnectError
	if !errors.As(err, &e) || errors.As(err, &outside) {
		return false
	}
	return !slices.ContainsFunc(transient, func(class string) bool { return strings.HasPrefix(e.Code, class) })
}
