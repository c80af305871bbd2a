package dbpool

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refused tells whether Postgres understands and refuses what a transaction writes, so
// that it would be refused again.
func Refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code[:2] == "22" || e.Code[:2] == "23" && e.Code != "23505")
}
