package clickhouse

import (
	"bytes"
	"os"
	"sync/atomic"
	"testing"
)

func TestSpoolMovesToDisk(t *testing.T) {
	dir := t.TempDir()
	var all atomic.Int64
	s, err := newSpool(dir, &all)
	if err != nil {
		t.Fatal(err)
	}
	part := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var want int64
	for want <= spoolMemory {
		n, err := s.Write(part)
		if err != nil {
			t.Fatal(err)
		}
		want += int64(n)
	}
	got, err := os.ReadFile(s.path())
	if err != nil || int64(len(got)) != want || s.inMemory || !bytes.HasSuffix(got, part) ||
		!bytes.HasPrefix(got, part) {
		t.Errorf("%d bytes, want %d on disk; in memory: %v; %v", len(got), want, s.inMemory, err)
	}
	s.close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
	if n := all.Load(); n != 0 {
		t.Errorf("%d bytes are said to be in memory", n)
	}
}

// TestSpoolsShareMemory: many inserts at one time hold no more than they may.
func TestSpoolsShareMemory(t *testing.T) {
	var all atomic.Int64
	part := make([]byte, 32<<20)
	var spools []*spool
	for range 2 * spoolsMemory / len(part) {
		s, err := newSpool(t.TempDir(), &all)
		if err != nil {
			t.Fatal(err)
		}
		spools = append(spools, s)
		if _, err := s.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	inMemory := 0
	for _, s := range spools {
		if s.inMemory {
			inMemory++
		}
	}
	if most := spoolsMemory / len(part); inMemory != most || all.Load() != spoolsMemory {
		t.Errorf("%d of %d inserts are in memory with %d bytes, want %d", inMemory, len(spools), all.Load(), most)
	}
	for _, s := range spools {
		s.close()
	}
	if n := all.Load(); n != 0 {
		t.Errorf("%d bytes are said to be in memory afterwards", n)
	}
}
