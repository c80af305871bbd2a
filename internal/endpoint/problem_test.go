package endpoint

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// TestProblemOfConstraint: what breaks a rule of a table is told in the words of the rule.
func TestProblemOfConstraint(t *testing.T) {
	for _, c := range []struct {
		code, constraint string
		status           int
		field            string
	}{
		{"23514", "item_priority_check", http.StatusBadRequest, "priority"},
		{"23503", "pending_override_source_id_fkey", http.StatusBadRequest, "source_id"},
		{"23505", "stage_name", http.StatusConflict, "name"},
		{"23505", "history_pkey", http.StatusInternalServerError, ""},
	} {
		refused := &pgconn.PgError{Code: c.code, ConstraintName: c.constraint, Message: "raw"}
		problem, ok := Problem(slog.New(slog.DiscardHandler), fmt.Errorf("write: %w", refused)).(*httpapi.Problem)
		if !ok || problem.Status != c.status || (c.field != "") != (len(problem.Errors) == 1) {
			t.Fatalf("%s: %+v", c.constraint, problem)
		}
		if c.field != "" && (problem.Errors[0].Field != c.field || strings.Contains(problem.Error(), "raw")) {
			t.Errorf("%s: %v", c.constraint, problem)
		}
	}
}

// TestProblemOfPostgres: what Postgres refuses because it is away, busy or not
// migrated yet is to be tried again; what it refuses for good is a fault of the
// server.
func TestProblemOfPostgres(t *testing.T) {
	for code, want := range map[string]int{
		"23505": http.StatusInternalServerError, "42601": http.StatusInternalServerError,
		"22P02": http.StatusInternalServerError,
		"40001": http.StatusServiceUnavailable, "57P01": http.StatusServiceUnavailable,
		"53300": http.StatusServiceUnavailable,
		"42P01": http.StatusServiceUnavailable, "42703": http.StatusServiceUnavailable,
		"42883": http.StatusServiceUnavailable,
		"42P10": http.StatusServiceUnavailable, "0A000": http.StatusServiceUnavailable,
	} {
		err := Problem(slog.New(slog.DiscardHandler), fmt.Errorf("finish a file: %w", &pgconn.PgError{Code: code}))
		if status, ok := err.(huma.StatusError); !ok || status.GetStatus() != want {
			t.Errorf("%s: %v, want status %d", code, err, want)
		}
	}
}
