package postgres_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/backup/postgres"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
)

var engine embeddedtest.Postgres

func TestMain(m *testing.M) { os.Exit(engine.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

type executor interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
}

// set is the files of a copy.
type set map[string][]byte

func (s set) create(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	err := write(&b)
	s[name] = b.Bytes()
	return err
}

func (s set) open(name string, read func(io.Reader) error) error {
	return read(bytes.NewReader(s[name]))
}

// TestMoment: a copy has all tables as of the moment, whatever is written after it; triggers do nothing twice,
// sequences go on, and transitions keep their order and are shown.
func TestMoment(t *testing.T) {
	ctx := t.Context()
	dsn := engine.DSN(t)
	db := connect(t, dsn)
	exec := func(on executor, statement string) {
		t.Helper()
		_, err := on.Exec(ctx, statement)
		must(t, err)
	}
	exec(db, `INSERT INTO millrace.stage (stage, name) VALUES (nextval('millrace.queue_number'), 'mail')`)
	exec(db, `INSERT INTO millrace.item (id, stage, key, payload) SELECT n, 100, 'k' || n, to_json(n)
		FROM generate_series(1, 1000) AS n`)
	exec(db, `INSERT INTO millrace.source (id, name, url, rate_limit, max_depth, enabled, selectors, priority)
		VALUES (gen_random_uuid(), E'a\tb\\\n', 'http://x', 1, 1, true, '{"a": 1}', 'low')`)
	exec(db, `INSERT INTO millrace.message_outbox (stream, key, subject, message_id, body, after_seq)
		VALUES ('SOURCES', 'a', 's', 'm', '\x0001ff', 7)`)
	exec(db, `CREATE TABLE millrace.theirs AS SELECT 1 AS n`)
	// The transaction that begins first has the later row.
	first, err := connect(t, dsn).Begin(ctx)
	must(t, err)
	exec(first, `SELECT pg_current_xact_id()`)
	const transition = `INSERT INTO millrace.history (item_id, attempt, stage, move, status, worker)
		VALUES (1, 1, 100, 'start', 'started', `
	exec(db, transition+`'second')`)
	exec(first, transition+`'first')`)
	must(t, first.Commit(ctx))

	files := set{}
	m, err := postgres.Freeze(ctx, dsn, func(context.Context) error { return nil })
	must(t, err)
	defer m.Close()
	exec(db, `DELETE FROM millrace.item WHERE id > 10`)
	exec(db, `DELETE FROM millrace.message_outbox`)
	info, err := m.Save(ctx, files.create)
	must(t, err)

	empty := engine.EmptyDSN(t)
	must(t, postgres.Prepare(ctx, empty))
	must(t, postgres.Prepare(ctx, empty)) // the first one's restore has not ended
	must(t, postgres.Release(ctx, empty))
	if err := postgres.Prepare(ctx, empty); err == nil {
		t.Error("a database with tables is restored to")
	}
	left, err := postgres.Restore(ctx, empty, info, files.open)
	must(t, err)
	if !slices.Equal(left, []string{"theirs"}) {
		t.Errorf("%v were left out", left)
	}
	restored := connect(t, empty)
	text := func(on *pgx.Conn, query string) (text string) {
		t.Helper()
		must(t, on.QueryRow(ctx, query).Scan(&text))
		return text
	}
	for query, want := range map[string]string{
		"SELECT count(*)::text FROM millrace.item":                                               "1000",
		"SELECT count(*) || min(encode(body, 'hex')) FROM millrace.message_outbox":               "10001ff",
		"SELECT nextval('millrace.queue_number')::text":                                          "101",
		"SELECT string_agg(worker, ' ' ORDER BY tx, id) FROM millrace.history":                   "first second",
		"SELECT (max(tx) < pg_snapshot_xmin(pg_current_snapshot()))::text FROM millrace.history": "true",
		"SELECT name FROM millrace.source":                                                       "a\tb\\\n",
		"SELECT count(*)::text FROM pg_trigger WHERE tgenabled = 'D'":                            "0",
	} {
		if got := text(restored, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	// What is written in the restored database is no conflict, and comes later.
	exec(restored, transition+`'third')`)
	exec(restored, `INSERT INTO millrace.message_outbox (stream, key, subject, message_id, body) VALUES ('A', 'a', 's', 'm', '')`)
	if got := text(restored, "SELECT string_agg(worker, ' ' ORDER BY tx, id) FROM millrace.history"); got != "first second third" {
		t.Errorf("transitions %q", got)
	}
}

// TestHeld: while a moment is taken, nobody changes an outbox, and somebody who holds it for long is waited for.
func TestHeld(t *testing.T) {
	ctx := t.Context()
	dsn := engine.DSN(t)
	holder, err := connect(t, dsn).Begin(ctx)
	must(t, err)
	const add = `INSERT INTO millrace.message_outbox (stream, key, subject, message_id, body) VALUES ('A', 'a', 's', 'm', '')`
	_, err = holder.Exec(ctx, add)
	must(t, err)
	done, other := make(chan error, 1), connect(t, dsn)
	moment := make(chan error, 1)
	go func() {
		m, err := postgres.Freeze(ctx, dsn, func(context.Context) error {
			go func() {
				_, err := other.Exec(ctx, add)
				done <- err
			}()
			for { // until the other one waits
				var waits bool
				watch, err := pgx.Connect(ctx, dsn)
				if err == nil {
					err = watch.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = $1)",
						other.PgConn().PID()).Scan(&waits)
					_ = watch.Close(ctx)
				}
				if err != nil || waits {
					return err
				}
				select {
				case err := <-done:
					t.Error("a message is added meanwhile: ", err)
					done <- err
					return nil
				default:
				}
			}
		})
		if err == nil {
			m.Close()
		}
		moment <- err
	}()
	must(t, holder.Commit(ctx))
	must(t, <-moment)
	must(t, <-done)
}

// TestHungServer: a server that takes connections and does not answer is not waited for without an end.
func TestHungServer(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	_, err = postgres.Freeze(ctx, "postgres://millrace@"+l.Addr().String()+"/millrace?sslmode=disable",
		func(context.Context) error { return nil })
	if err == nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}
