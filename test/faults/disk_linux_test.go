package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPower: what is synced outlives a loss of power, and what is not is gone.
func TestPower(t *testing.T) {
	d := testDisk(t)
	for range 20 {
		journal, err := os.OpenFile(filepath.Join(d.path, "journal"), os.O_CREATE|os.O_RDWR, 0o600)
		must(t, err)
		must(t, unix.Fallocate(int(journal.Fd()), 0, 0, 1<<20))
		must(t, journal.Sync())
		for i := range 50 {
			_, err := journal.WriteAt([]byte{byte(i + 1)}, int64(i*5000))
			must(t, err)
			must(t, unix.Fdatasync(int(journal.Fd())))
		}
		_, err = journal.WriteAt([]byte("never synced"), 900_000)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(d.path, "unsynced"), []byte("x"), 0o600))
		must(t, d.cutPower())
		if _, err := journal.WriteAt([]byte("late"), 0); err == nil && journal.Sync() == nil {
			t.Error("it takes data without power")
		}
		journal.Close() // an error: there is no power
		must(t, d.restart())
		kept, err := os.ReadFile(filepath.Join(d.path, "journal"))
		must(t, err)
		for i := range 50 {
			if kept[i*5000] != byte(i+1) {
				t.Fatalf("byte %d was synced, and is lost", i)
			}
		}
		if kept[900_000] != 0 {
			t.Error("what was not synced is there")
		}
		if _, err := os.Stat(filepath.Join(d.path, "unsynced")); !errors.Is(err, os.ErrNotExist) {
			t.Error("a file that was not synced is there")
		}
		must(t, os.Remove(filepath.Join(d.path, "journal")))
	}
}

// TestFull: a full disk takes nothing, and takes it again when there is room.
func TestFull(t *testing.T) {
	d := testDisk(t)
	end, err := d.fill(0)
	must(t, err)
	if err := os.WriteFile(filepath.Join(d.path, "a"), make([]byte, 1<<16), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a write to a full disk: %v", err)
	}
	must(t, end())
	must(t, os.WriteFile(filepath.Join(d.path, "a"), make([]byte, 1<<16), 0o600))
}

func testDisk(t *testing.T) *disk {
	t.Helper()
	if !canMount() {
		without(t, errNoDisks)
	}
	d, err := newDisk(t.TempDir(), 64<<20)
	must(t, err)
	t.Cleanup(func() { must(t, d.remove()) })
	return d
}
