package backup_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/backup"
	"github.com/millrace-io/millrace/internal/backup/set"
	"github.com/millrace-io/millrace/schemas/stream"
)

// siblings looks for bases where they were.
func siblings(of set.Target) func(set.Base) ([]set.Target, error) {
	return func(b set.Base) ([]set.Target, error) { return []set.Target{set.Folder(set.Within(of, b.Place))}, nil }
}

// TestIncremental: a set on a base has the events alone that the base lacks, and no file that is there unchanged. It is
// restored with all that its bases have, and refused by the name of the base that is absent or altered. Where the table
// has lost events that the base has, the set is whole.
func TestIncremental(t *testing.T) {
	ctx := t.Context()
	in := installation(t)
	js, err := jetstream.New(in.NATS)
	must(t, err)
	kv, err := js.KeyValue(ctx, stream.Checkpoints)
	must(t, err)
	p := &pretended{kv: kv, db: driver.OpenDB(in.ClickHouse), groups: 1}
	defer p.db.Close()
	root := t.TempDir()
	folder := func(name string) set.Folder { return set.Folder(filepath.Join(root, name)) }
	save := func(name, base string) *set.Manifest {
		t.Helper()
		var on *set.Reader
		if base != "" {
			on, err = set.Open(ctx, folder(base), siblings(folder(base)))
			must(t, err)
		}
		m, err := backup.Save(ctx, in, folder(name), "test", on)
		must(t, err)
		return m
	}
	must(t, p.batch(ctx, 0, 1000, 2000))
	save("a", "")
	must(t, p.batch(ctx, 0, 2000, 2010))
	b := save("b", "a")
	must(t, p.batch(ctx, 0, 2010, 2020))
	c := save("c", "b")
	if n := backup.Events(c); n != 2020 {
		t.Errorf("the last set has %d events, want 2020", n)
	}
	for _, m := range []*set.Manifest{b, c} {
		i := slices.IndexFunc(m.Files, func(f set.File) bool { return f.Name == "clickhouse/events.0.native.zst" })
		if m.Files[i].Base == "" {
			t.Errorf("the events of the base are in the set again: %+v", m.Files[i])
		}
		if _, err := os.Stat(filepath.Join(root, "c", "postgres", "item.copy.zst")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a file that is unchanged is in the set again: %v", err)
		}
	}
	restore := func(name string) (int, error) {
		r, err := backup.Open(ctx, folder(name), siblings(folder(name)))
		if err != nil {
			return 0, err
		}
		to := empty(t)
		must(t, backup.Restore(ctx, to, r, 1))
		return count(ctx, t, to), nil
	}
	if n, err := restore("c"); n != 2020 || err != nil {
		t.Errorf("%d events are restored, want 2020: %v", n, err)
	}
	// A base that was moved is found where it is said to be.
	must(t, os.Rename(filepath.Join(root, "a"), filepath.Join(root, "elsewhere")))
	if _, err := restore("c"); !errors.Is(err, set.ErrDamaged) || !strings.Contains(err.Error(), "../a") {
		t.Errorf("a set whose base is absent: %v", err)
	}
	if _, err := backup.Open(ctx, folder("c"), func(b set.Base) ([]set.Target, error) {
		return []set.Target{folder("elsewhere"), folder("b")}, nil
	}); err != nil {
		t.Errorf("a set whose base is elsewhere: %v", err)
	}
	must(t, os.Rename(filepath.Join(root, "elsewhere"), filepath.Join(root, "a")))
	altered := filepath.Join(root, "a", "clickhouse", "events.0.native.zst")
	text, err := os.ReadFile(altered)
	must(t, err)
	text[len(text)/2] ^= 1
	must(t, os.WriteFile(altered, text, 0o600))
	if _, err := restore("c"); !errors.Is(err, set.ErrDamaged) || !strings.Contains(err.Error(), "events.0.native.zst") ||
		!strings.Contains(err.Error(), string(folder("a"))) {
		t.Errorf("a set whose base is altered: %v", err)
	}
	_, err = p.db.ExecContext(ctx, "ALTER TABLE events DELETE WHERE seq = 7 SETTINGS mutations_sync = 2")
	must(t, err)
	if save("d", "c"); err != nil {
		t.Fatal(err)
	}
	if n, err := restore("d"); n != 2019 || err != nil {
		t.Errorf("%d events are restored, want 2019: %v", n, err)
	}
}

func count(ctx context.Context, t *testing.T, in backup.Installation) (n int) {
	t.Helper()
	db := driver.OpenDB(in.ClickHouse)
	defer db.Close()
	must(t, db.QueryRowContext(ctx, "SELECT toInt64(uniqExact(seq)) FROM events").Scan(&n))
	var rows int
	must(t, db.QueryRowContext(ctx, "SELECT toInt64(count()) FROM events").Scan(&rows))
	if rows != n {
		t.Errorf("%d events have %d rows", n, rows)
	}
	return n
}
