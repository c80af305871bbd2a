package endpoint

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/jackc/pgx/v5/pgconn"
)

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
