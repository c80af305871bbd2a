package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/internal/embedded/embeddedtest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// breaks is a place that is gone after so many files were opened; -1: it stays.
type breaks struct {
	set.Target
	after int
}

var errGone = errors.New("the place is gone")

func (b *breaks) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	switch b.after {
	case 0:
		return nil, errGone
	case -1:
	default:
		b.after--
	}
	return b.Target.Open(ctx, name)
}

// installation is a small one on servers of its own.
func installation(t *testing.T) backup.Installation {
	t.Helper()
	ctx := t.Context()
	in := backup.Installation{
		NATS: embeddedtest.Connect(t, embeddedtest.NATS(t)), ClickHouse: engine.Database(t), Postgres: pgEngine.DSN(t),
		Log: embeddedtest.Log(t),
	}
	js, err := jetstream.New(in.NATS)
	must(t, err)
	must(t, stream.Ensure(ctx, js, stream.Config{}))
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	must(t, err)
	_, err = kv.PutString(ctx, slots.Key, `{"slot_groups":1}`)
	must(t, err)
	p := &pretended{kv: kv, db: driver.OpenDB(in.ClickHouse), groups: 1}
	defer p.db.Close()
	must(t, p.batch(ctx, 0, 0, 1000))
	pg, err := pgx.Connect(ctx, in.Postgres)
	must(t, err)
	defer pg.Close(ctx)
	_, err = pg.Exec(ctx, `INSERT INTO millrace.message_outbox (stream, key, subject, message_id, body)
		SELECT 'SOURCES', 'k', 's', 'm' || n, '' FROM generate_series(1, 10) AS n`)
	must(t, err)
	return in
}

func empty(t *testing.T) backup.Installation {
	t.Helper()
	return backup.Installation{
		NATS: embeddedtest.Connect(t, embeddedtest.NATS(t)), ClickHouse: engine.Empty(t), Postgres: pgEngine.EmptyDSN(t),
		Log: embeddedtest.Log(t),
	}
}

// TestRestoreAgain: a restore that ended at any file is begun again by the next one, on the same servers. Until one has
// ended, nothing works there: no stream is made, and no backup is taken.
func TestRestoreAgain(t *testing.T) {
	slowtest.Mark(t)
	ctx := t.Context()
	place := &breaks{set.Folder(filepath.Join(t.TempDir(), "set")), -1}
	m, err := backup.Save(ctx, installation(t), place, "test", nil)
	must(t, err)
	r, err := backup.Open(ctx, place, nil)
	must(t, err)
	to := empty(t)
	js, err := jetstream.New(to.NATS)
	must(t, err)
	for _, after := range []int{0, 3, 30, len(m.Files) - 4, len(m.Files) - 1} { // in ClickHouse, Postgres and NATS
		place.after = after
		if err := backup.Restore(ctx, to, r, 1); !errors.Is(err, errGone) {
			t.Fatalf("a restore whose place is gone after %d files: %v", after, err)
		}
		if err := stream.Ensure(ctx, js, stream.Config{}); !errors.Is(err, stream.ErrRestoring) {
			t.Fatalf("after %d files streams are made: %v", after, err)
		}
		if _, err := backup.Save(ctx, to, set.Folder(t.TempDir()), "test", nil); !errors.Is(err, stream.ErrRestoring) {
			t.Fatalf("after %d files a backup is taken: %v", after, err)
		}
	}
	place.after = -1
	must(t, backup.Restore(ctx, to, r, 1))
	must(t, stream.Ensure(ctx, js, stream.Config{}))
	db := driver.OpenDB(to.ClickHouse)
	defer db.Close()
	var events, tables int
	must(t, db.QueryRowContext(ctx, "SELECT toInt64(count()) FROM events").Scan(&events))
	must(t, db.QueryRowContext(ctx, `SELECT toInt64(count()) FROM system.tables WHERE database = currentDatabase()
		AND name = 'restoring'`).Scan(&tables))
	pg, err := pgx.Connect(ctx, to.Postgres)
	must(t, err)
	defer pg.Close(ctx)
	var waiting, marked int
	must(t, pg.QueryRow(ctx, `SELECT (SELECT count(*) FROM millrace.message_outbox),
		(SELECT count(obj_description(to_regnamespace('millrace'), 'pg_namespace')))`).Scan(&waiting, &marked))
	if events != 1000 || waiting != 10 || tables+marked > 0 {
		t.Errorf("%d events, %d messages, and %d marks remain", events, waiting, tables+marked)
	}
	if err := backup.Restore(ctx, to, r, 1); err == nil || !strings.Contains(err.Error(), "NATS has a stream") {
		t.Errorf("an installation is restored over another: %v", err)
	}
}

// TestRestoreKeepsOthers: what an installation has is not removed as if a restore had left it, whichever server it is on.
func TestRestoreKeepsOthers(t *testing.T) {
	ctx := t.Context()
	theirs := installation(t)
	place := &breaks{set.Folder(filepath.Join(t.TempDir(), "set")), -1}
	_, err := backup.Save(ctx, theirs, place, "test", nil)
	must(t, err)
	r, err := backup.Open(ctx, place, nil)
	must(t, err)
	broken := empty(t)
	place.after = 5
	if err := backup.Restore(ctx, broken, r, 1); !errors.Is(err, errGone) {
		t.Fatal(err)
	}
	place.after = -1
	for name, mixed := range map[string]backup.Installation{
		"of ClickHouse has tables": {NATS: broken.NATS, ClickHouse: theirs.ClickHouse, Postgres: broken.Postgres},
		"of Postgres has a schema": {NATS: broken.NATS, ClickHouse: broken.ClickHouse, Postgres: theirs.Postgres},
		"NATS has a stream":        {NATS: theirs.NATS, ClickHouse: broken.ClickHouse, Postgres: broken.Postgres},
	} {
		mixed.Log = broken.Log
		if err := backup.Restore(ctx, mixed, r, 1); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q: %v", name, err)
		}
	}
	other, err := backup.Open(ctx, place, nil)
	must(t, err)
	other.Sum = fmt.Sprint("another ", other.Sum)
	must(t, backup.Restore(ctx, broken, other, 1)) // another set may take the place of one that has not ended
}
