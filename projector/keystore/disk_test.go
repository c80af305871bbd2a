package keystore

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace-io/millrace/internal/diskroom"
)

// small is a disk that can be full.
type small struct {
	vfs.FS
	full    atomic.Bool
	refused chan struct{} // a value whenever a write has found no room
}

func newSmall() *small {
	s := &small{refused: make(chan struct{}, 1)}
	s.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !s.full.Load() || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		select {
		case s.refused <- struct{}{}:
		default:
		}
		return syscall.ENOSPC
	}))
	return s
}

func (s *small) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if s.full.Load() {
		return vfs.DiskUsage{}, nil
	}
	return vfs.DiskUsage{AvailBytes: diskroom.Room}, nil
}

// TestFullDisk: while the disk is full the store waits, and when there is room
// it goes on as if nothing had been.
func TestFullDisk(t *testing.T) {
	files, dir := newSmall(), t.TempDir()
	s, err := openIn(t.Context(), files, dir, Options{MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	foldAll(t, s, 1, 1000, 1)
	files.full.Store(true)
	done := make(chan error, 1)
	go func() {
		for at := uint64(1001); at < 20_000; at += 1000 { // beyond the write buffers
			if _, err := s.Fold(sightings(at, at+999, at), at-1, at+999); err != nil {
				done <- err
				return
			}
		}
		done <- s.Sync()
	}()
	<-files.refused
	select {
	case err := <-done:
		t.Fatalf("it went on without room: %v", err)
	default:
	}
	files.full.Store(false)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := foldAll(t, s, 1, 20_000, 20_001); n != 20_000 {
		t.Errorf("%d of 20,000 identities are known", n)
	}
}

// TestEndWhileFull: who waits for room when the end comes is let go, and what
// was there before is still there.
func TestEndWhileFull(t *testing.T) {
	files, dir := newSmall(), t.TempDir()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	s, err := openIn(ctx, files, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	foldAll(t, s, 1, 1000, 1)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	files.full.Store(true)
	time.AfterFunc(0, func() { <-files.refused; end() })
	_, err = s.Fold(sightings(1001, 9000, 1001), 1000, 9000)
	if err == nil {
		err = s.Sync()
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("error %v", err)
	}
	if _, err := s.Fold(sightings(1, 1, 9001), 9000, 9001); !errors.Is(err, ErrFull) {
		t.Errorf("a call after the end: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	files.full.Store(false) // it closes now, and lets another one open
	for s, err = openIn(t.Context(), files, dir, Options{}); err != nil; s, err = openIn(t.Context(), files, dir,
		Options{}) {
		if IsDamaged(err) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	defer func() { s.Close() }()
	if n := foldAll(t, s, 1, 1000, s.Applied()+1); n != 1000 {
		t.Errorf("%d of 1,000 identities are known", n)
	}
}

// TestOpenWhileFull: the end comes before there is room to open the store.
func TestOpenWhileFull(t *testing.T) {
	files := newSmall()
	files.full.Store(true)
	ctx, end := context.WithCancel(t.Context())
	time.AfterFunc(0, func() { <-files.refused; end() })
	if _, err := openIn(ctx, files, t.TempDir(), Options{}); !errors.Is(err, ErrFull) {
		t.Errorf("error %v", err)
	}
}

// TestCloseWhileFull: a store is given up at once while it waits for room, also
// by who does so for another reason than the end.
func TestCloseWhileFull(t *testing.T) {
	files, dir := newSmall(), t.TempDir()
	s, err := openIn(t.Context(), files, dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	foldAll(t, s, 1, 1000, 1)
	files.full.Store(true)
	waiting := make(chan error, 1)
	go func() { waiting <- s.Sync() }()
	<-files.refused
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := <-waiting; !errors.Is(err, ErrFull) {
		t.Errorf("a call that waited ends with %v", err)
	}
	files.full.Store(false) // it closes now, and lets another one open
	for s, err = openIn(t.Context(), files, dir, Options{}); err != nil; s, err = openIn(t.Context(), files, dir,
		Options{}) {
		if IsDamaged(err) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
