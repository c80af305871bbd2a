package keystore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFull is the error of calls that waited for room on a full disk until the
// store's context ended. The store is of no use then; all that is in it is
// still there when it is opened again.
var ErrFull = errors.New("the disk is full")

const (
	// room is how much of a disk has to be free, in bytes, before writing goes
	// on: a write that fails a second time would be fatal to the database.
	room     = 16 << 20
	askAgain = 250 * time.Millisecond
)

// disk is the file system below a store. While it is full, whoever writes
// waits: the database itself would end the process.
type disk struct {
	fs  vfs.FS // that waits
	raw vfs.FS // that does not
	dir string
	log logger

	mu      sync.Mutex
	full    bool
	ending  bool
	givenUp chan struct{} // closed when the disk is full and the end has come
	calls   sync.WaitGroup
}

func newDisk(ctx context.Context, raw vfs.FS, dir string, log logger) (d *disk, release func() bool) {
	d = &disk{raw: raw, dir: dir, log: log, givenUp: make(chan struct{})}
	d.fs = vfs.OnDiskFull(raw, d.awaitRoom)
	return d, context.AfterFunc(ctx, func() { d.set(&d.ending, true) })
}

// awaitRoom is called once for each time that the disk is full, with all
// writes held back.
func (d *disk) awaitRoom() {
	d.log.Errorf("no room in %s: waiting until %d MiB are free", d.dir, room>>20)
	d.set(&d.full, true)
	for !d.hasRoom() {
		time.Sleep(askAgain)
	}
	d.set(&d.full, false)
	d.log.Errorf("there is room again in %s: going on", d.dir)
}

func (d *disk) hasRoom() bool {
	usage, err := d.raw.GetDiskUsage(filepath.Dir(d.dir)) // the folder itself may be what there is no room for
	return err == nil && usage.AvailBytes >= room
}

func (d *disk) set(what *bool, to bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*what = to
	if d.full && d.ending && !d.gone() {
		close(d.givenUp)
	}
}

// begin counts a call, unless the store has been given up: whoever waits for the
// calls after that waits for all of them.
func (d *disk) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone() {
		return false
	}
	d.calls.Add(1)
	return true
}

func (d *disk) gone() bool {
	select {
	case <-d.givenUp:
		return true
	default:
		return false
	}
}

func (d *disk) isFull() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.full
}

// do carries out what may have to wait for room. What is given up goes on
// waiting by itself.
func (d *disk) do(f func() error) error {
	if !d.begin() {
		return ErrFull
	}
	done := make(chan error, 1)
	go func() {
		defer d.calls.Done()
		done <- survive(f)
	}()
	select {
	case err := <-done:
		return err
	case <-d.givenUp:
		return ErrFull
	}
}

// fatal is what the database cannot go on after.
type fatal string

// survive turns the end that the database wants to make into an error.
func survive(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatal:
			err = fmt.Errorf("key store: %s", string(r))
		default:
			panic(r)
		}
	}()
	return f()
}
