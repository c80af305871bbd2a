package dbpool_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// lifted are the settings by which a role's limits can be lifted.
const lifted = `SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET transaction_timeout = 0;
	SET idle_session_timeout = 0; SET default_transaction_read_only = off;`

// TestLiftedLimits: a session of an analyst that has lifted the limits of its role is ended,
// however it goes on, and one that keeps to them is not. Neither is one of Millrace.
func TestLiftedLimits(t *testing.T) {
	dsn := postgres.DSN(t)
	own, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close(context.Background()) })
	if _, err := own.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	watch(t, dsn)
	for name, statements := range map[string][]string{
		"statement": {"SELECT pg_sleep(600)"},
		"statement that goes on after it was cancelled": {`DO $$ BEGIN LOOP
			BEGIN PERFORM pg_sleep(600); EXCEPTION WHEN query_canceled THEN NULL; END;
		END LOOP; END $$`},
		"idle in a transaction":        {"BEGIN", "SELECT 1", "idle"},
		"idle in a failed transaction": {"BEGIN", "SELECT 1/0", "idle"},
		"busy in a transaction":        {"BEGIN", "SELECT 1", "again"},
		"session that does nothing":    {"SELECT 1", "idle"},
		"another role":                 {"SET ROLE millrace_reader", "SELECT pg_sleep(600)"},
		"transaction with an id":       {"BEGIN", "ALTER ROLE analyst SET work_mem = '1GB'", "again"},
		"cursor with hold":             {"BEGIN", "DECLARE c CURSOR WITH HOLD FOR SELECT generate_series(1, 1000)", "COMMIT", "idle"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := analyst(t, dsn)
			if _, err := conn.Exec(t.Context(), lifted); err != nil {
				t.Fatal(err)
			}
			if err := runAll(t.Context(), conn, statements); !ended(err) {
				t.Errorf("it goes on: %v", err)
			}
		})
	}
	t.Run("within its limits", func(t *testing.T) {
		t.Parallel()
		conn := analyst(t, dsn)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			if _, err := conn.Exec(t.Context(), "SELECT pg_sleep(0.01)"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := own.Exec(t.Context(), "COMMIT"); err != nil {
			t.Error("Millrace's own transaction:", err)
		}
	})
}

// runAll sends statements. "idle" waits for the server to say something, "again" repeats the
// statement before until it fails.
func runAll(ctx context.Context, conn *pgx.Conn, statements []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, sql := range statements {
		switch sql {
		case "idle":
			_, err = conn.WaitForNotification(ctx)
		case "again":
			for err == nil {
				_, err = conn.Exec(ctx, "SELECT 1")
			}
		default:
			_, err = conn.Exec(ctx, sql)
		}
		if err != nil && sql != "SELECT 1/0" {
			return err
		}
	}
	return errors.New("all statements were done")
}

// ended tells whether an error is that the session was ended.
func ended(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "57P01" || err != nil && pgconn.SafeToRetry(err)
}

func watch(t *testing.T, dsn string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	w, err := dbpool.NewWatchdog(dbpool.WatchdogConfig{
		Statement: time.Second, Idle: time.Second, Transaction: 3 * time.Second, Writing: time.Second, Session: 2 * time.Second,
		Grace: time.Millisecond, Every: 50 * time.Millisecond,
	}, pool, prometheus.NewRegistry(), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func analyst(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("analyst", postgres.AnalystPassword(t))
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}
