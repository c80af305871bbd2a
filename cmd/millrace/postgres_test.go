package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/schemas/postgres"
)

// TestWaitsForPostgres: a process starts without a server that comes up, and not with one that refuses it.
func TestWaitsForPostgres(t *testing.T) {
	for _, tc := range []struct {
		err   error
		waits bool
	}{
		{errors.New("connection refused"), true},
		{&pgconn.PgError{Code: "57P03"}, true},
		{&pgconn.PgError{Code: "3D000"}, false},
		{&pgconn.PgError{Code: "28P01"}, false},
		{postgres.ErrNewerSchema, false},
	} {
		err := fmt.Errorf("migrate: %w", tc.err)
		if got := postgresAway(err); got != tc.waits {
			t.Errorf("%v: %t", err, got)
		}
	}
}
