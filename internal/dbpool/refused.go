package dbpool

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/postgres"
)

// Refused tells whether Postgres understands and refuses what a transaction writes, so
// that it would be refused again.
func Refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code[:2] == "22" || e.Code[:2] == "23" && e.Code != "23505")
}

// Exists is the code of the rule that something must not be there already.
const Exists = "exists"

// Broken returns the rule that what was written breaks, in our own words; nil when the
// error says nothing of that.
func Broken(err error) *item.Invalid {
	var invalid *item.Invalid
	if errors.As(err, &invalid) {
		return invalid
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) || !strings.HasPrefix(e.Code, "23") {
		return nil
	}
	rule, known := postgres.Rules[e.ConstraintName]
	switch {
	case !known:
		return nil
	case e.Code == "23505":
		return &item.Invalid{Field: rule.Field, Code: Exists, Rule: rule.Rule}
	}
	return &item.Invalid{Field: rule.Field, Code: "refused", Rule: rule.Rule}
}

// Message says of an error what may be told to those outside. The words of Postgres and
// of the driver name tables, logins and addresses, and stay in the log.
func Message(err error) string {
	var e *pgconn.PgError
	var unreached *pgconn.ConnectError
	switch {
	case errors.As(err, &unreached):
		return "Postgres is away"
	case !errors.As(err, &e):
		return err.Error()
	}
	if broken := Broken(err); broken != nil {
		return broken.Error()
	}
	if Refused(err) {
		return "an internal error occurred; the server's log has the cause"
	}
	return "Postgres is busy or away"
}
