package dbpool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// TestMessage: those outside are told rules, and no words of Postgres or of the driver.
func TestMessage(t *testing.T) {
	_, unreached := pgconn.Connect(t.Context(), "postgres://secret-login@127.0.0.1:1/secret-name?connect_timeout=5")
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("there is no queue"), "there is no queue"},
		{&pgconn.PgError{Code: "23514", ConstraintName: "item_priority_check"}, "priority: must be from 0 to 9"},
		{&pgconn.PgError{Code: "23514", ConstraintName: "slot_secret"}, "an internal error occurred"},
		{&pgconn.PgError{Code: "22P02", Message: "secret"}, "an internal error occurred"},
		{&pgconn.PgError{Code: "57P01", Message: "secret"}, "Postgres is busy or away"},
		{unreached, "Postgres is away"},
	} {
		got := dbpool.Message(fmt.Errorf("do: %w", c.err))
		if !strings.HasPrefix(strings.TrimPrefix(got, "do: "), c.want) || strings.Contains(got, "secret") {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}
