package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/schemas/postgres"
)

// TestWaitsForPostgres: a server that comes up is waited for, also while it has
// no database yet; what no waiting mends is not.
func TestWaitsForPostgres(t *testing.T) {
	for _, tc := range []struct {
		err   error
		waits bool
	}{
		{errors.New("connection refused"), true},
		{&pgconn.PgError{Code: "57P03"}, true},
		{&pgconn.PgError{Code: "3D000"}, true},
		{&pgconn.PgError{Code: "28P01"}, false},
		{postgres.ErrNewerSchema, false},
	} {
		err := fmt.Errorf("migrate: %w", tc.err)
		if got := away(err) || unmade(err); got != tc.waits {
			t.Errorf("%v: %t", err, got)
		}
	}
}
