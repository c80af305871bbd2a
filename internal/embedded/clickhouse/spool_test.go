package clickhouse

import (
	"bytes"
	"os"
	"testing"
)

func TestSpoolMovesToDisk(t *testing.T) {
	dir := t.TempDir()
	s, err := newSpool(dir)
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
	if err != nil || int64(len(got)) != want || s.inMemory || !bytes.HasSuffix(got, part) || !bytes.HasPrefix(got, part) {
		t.Errorf("%d bytes, want %d on disk; in memory: %v; %v", len(got), want, s.inMemory, err)
	}
	s.close()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}
