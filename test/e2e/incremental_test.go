package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace-io/millrace/internal/slowtest"
)

// TestIncrementalBackup holds that an installation is restored from a backup that has only what its base lacks, and that
// it is refused without the base. It prints what the backups take.
func TestIncrementalBackup(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	c := recent(seed(t), backedUpArticles(t))
	parts := pieces(c.lines(), 10)
	for _, part := range parts[:9] {
		s.emit(part)
	}
	s.caughtUp()
	sets := t.TempDir()
	place := func(name string) string { return filepath.Join(sets, name) }
	backUp := func(name string, args ...string) {
		t.Helper()
		p := launch(t, s.ports.env(), nil, append([]string{"backup", "--to", place(name), "--data", s.data}, args...)...)
		if status := p.wait(t, backupLimit); status != 0 {
			t.Fatalf("backup %s: exit status %d:\n%s%s", name, status, p.out, p.log)
		}
		t.Logf("%s: %s: ClickHouse %d bytes, NATS %d, Postgres %d", name, strings.TrimSpace(p.out.String()),
			sizeOf(t, place(name), "clickhouse"), sizeOf(t, place(name), "nats"), sizeOf(t, place(name), "postgres"))
	}
	backUp("base")
	s.emit(parts[9])
	s.caughtUp()
	backUp("whole")
	backUp("incremental", "--base", place("base"))
	if whole, less := sizeOf(t, place("whole"), "clickhouse"), sizeOf(t, place("incremental"), "clickhouse"); less*2 > whole {
		t.Errorf("the incremental backup has %d bytes of ClickHouse, and the whole one %d", less, whole)
	}
	s.stop()
	if err := os.RemoveAll(s.data); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(place("base"), place("moved")); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(t.TempDir(), "data")
	refused := launch(t, nil, nil, "restore", "--from", place("incremental"), "--data", data)
	if refused.wait(t, waitLimit) != 1 || !strings.Contains(refused.log.String(), "has files in the base ../base") {
		t.Errorf("a backup without its base:\n%s", refused.log)
	}
	r := prepare(t)
	p := launch(t, r.ports.env(), nil, "restore", "--from", place("incremental"), "--base", place("moved"), "--data", r.data)
	if status := p.wait(t, backupLimit); status != 0 {
		t.Fatalf("restore: exit status %d:\n%s%s", status, p.out, p.log)
	}
	r.start()
	mustMatch(t, r, c)
	r.emit(c.lines())
	mustMatch(t, r, c)
}

// sizeOf is how many bytes a set has of a store.
func sizeOf(t *testing.T, set, store string) (n int64) {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(set, store))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", f.Name(), err))
		}
		n += info.Size()
	}
	return n
}
