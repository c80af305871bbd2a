package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var errSilent = errors.New("no answer from Postgres")

// WhileAnswering calls do with a context that ends when Postgres has answered nobody for the given time: a server that is
// stopped, or whose machine is gone, keeps a COPY waiting for good. How long one statement takes does not count.
func WhileAnswering(ctx context.Context, dsn string, wait time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		for answered := time.Now(); ctx.Err() == nil; {
			begun := time.Now()
			if answers(ctx, dsn, wait/4) {
				answered = time.Now()
			} else if silent := time.Since(answered); silent >= wait {
				cancel(fmt.Errorf("%w for %s", errSilent, silent.Round(time.Second)))
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Until(begun.Add(wait / 4))):
			}
		}
	}()
	err := do(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSilent) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// answers tells whether a server answers within a time. A refusal is an answer.
func answers(ctx context.Context, dsn string, wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	conn, err := connect(ctx, dsn)
	if err != nil {
		var refused *pgconn.PgError
		return errors.As(err, &refused)
	}
	defer conn.Close(ctx)
	return conn.Ping(ctx) == nil
}
