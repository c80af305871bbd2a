package endpoint

import (
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/instant"
	"github.com/millrace-io/millrace/schemas/item"
)

// Problem turns an error into what the caller is told.
func Problem(log *slog.Logger, err error) error {
	var told huma.StatusError
	broken := dbpool.Broken(err)
	switch {
	case errors.As(err, &told):
		return told
	case broken != nil && broken.Code == dbpool.Exists:
		return httpapi.NewProblem(http.StatusConflict, "the request is about something that is there already",
			httpapi.FieldError(*broken))
	case broken != nil:
		return BadRequest(*broken)
	case errors.Is(err, queue.ErrNoQueue):
		return NotFound("queue", "must be a queue that was made")
	case ours(err):
		return httpapi.Internal(err)
	}
	log.Warn("Postgres or NATS is away or too slow", "error", err)
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

// BadRequest is the problem of a request that breaks rules.
func BadRequest(broken ...item.Invalid) *httpapi.Problem {
	p := httpapi.NewProblem(http.StatusBadRequest, "the request breaks a rule")
	for _, rule := range broken {
		p.Errors = append(p.Errors, httpapi.FieldError(rule))
	}
	return p
}

// Refused lists the rules that a request breaks, as its Resolve returns them.
func Refused(broken []item.Invalid) (all []error) {
	for _, rule := range broken {
		all = append(all, httpapi.FieldError(rule))
	}
	return all
}

// Faults lists the rules that a request breaks, as its Resolve returns them, from
// the errors of checks. An error may join several; nil is none.
func Faults(checks ...error) (all []error) {
	for _, err := range checks {
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			all = append(all, Faults(several.Unwrap()...)...)
		} else if invalid, ok := err.(*item.Invalid); ok {
			all = append(all, httpapi.FieldError(*invalid))
		}
	}
	return all
}

// ParseTime reads an optional time that a field has, RFC 3339. Without one it returns the zero time.
func ParseTime(field, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := instant.Parse(text)
	if err != nil {
		return time.Time{}, &item.Invalid{Field: field, Code: "time_format", Rule: err.Error()}
	}
	return t, nil
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
