package postgres

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

// Readers is the role that may read what people may. Logins of people are made
// its members; it cannot log in itself.
const Readers = "millrace_reader"

//go:embed reading.sql
var reading string

// GrantReading lets the role [Readers] read each table of the schema that has a
// comment, and no other. It makes the role when it is missing and the present
// one may; otherwise it changes nothing and returns false. It is idempotent.
func GrantReading(ctx context.Context, db *sql.DB) (granted bool, err error) {
	if _, err := db.ExecContext(ctx, reading); err != nil {
		return false, fmt.Errorf("grant reading to %s: %w", Readers, err)
	}
	err = db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", Readers).Scan(&granted)
	if err != nil {
		return false, fmt.Errorf("look for the role %s: %w", Readers, err)
	}
	return granted, nil
}
