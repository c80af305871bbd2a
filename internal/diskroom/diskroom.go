// Package diskroom makes a database that is embedded as a library (Pebble) wait while its
// disk is full. By itself, the database would end the process.
package diskroom

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrFull is the error of calls that waited for room on a full disk until the
// disk's context ended. The database is of no use then; all that is in it is
// still there when it is opened again.
var ErrFull = errors.New("the disk is full")

// Room is how much of a disk has to be free, in bytes, before writing goes
// on: a write that fails a second time would be fatal to the database.
const Room = 16 << 20

const askAgain = 250 * time.Millisecond

// Disk is the file system below a database. While it is full, whoever writes
// waits. It is safe for concurrent use.
type Disk struct {
	FS  vfs.FS // that waits, for the options of the database
	raw vfs.FS // that does not
	dir string
	log Logger

	mu     sync.Mutex
	full   bool
	ending bool
	gone   context.Context // ends when the disk is full and the end has come
	giveUp context.CancelFunc
	calls  sync.WaitGroup
}

// New returns the disk with the folder of a database. When ctx ends, calls that wait for
// room are given up. release has the end of ctx mean nothing any more.
func New(ctx context.Context, raw vfs.FS, dir string, log Logger) (d *Disk, release func() bool) {
	d = &Disk{raw: raw, dir: dir, log: log}
	d.gone, d.giveUp = context.WithCancel(context.Background())
	d.FS = vfs.OnDiskFull(raw, d.awaitRoom)
	return d, context.AfterFunc(ctx, d.End)
}

// End gives calls up that wait for room, now and from now on.
func (d *Disk) End() { d.set(&d.ending, true) }

// Wait returns when all calls have ended, also those that were given up. After those, no
// call begins.
func (d *Disk) Wait() { d.calls.Wait() }

// awaitRoom is called once for each time that the disk is full, with all
// writes held back.
func (d *Disk) awaitRoom() {
	d.log.Errorf("no room in %s: waiting until %d MiB are free", d.dir, Room>>20)
	d.set(&d.full, true)
	for !d.hasRoom() {
		time.Sleep(askAgain)
	}
	d.set(&d.full, false)
	d.log.Errorf("there is room again in %s: going on", d.dir)
}

func (d *Disk) hasRoom() bool {
	usage, err := d.raw.GetDiskUsage(filepath.Dir(d.dir)) // the folder itself may be what there is no room for
	return err == nil && usage.AvailBytes >= Room
}

func (d *Disk) set(what *bool, to bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	*what = to
	if d.full && d.ending {
		d.giveUp()
	}
}

// begin counts a call, unless the store has been given up: whoever waits for the
// calls after that waits for all of them.
func (d *Disk) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone.Err() != nil {
		return false
	}
	d.calls.Add(1)
	return true
}

// Full tells whether calls wait for room.
func (d *Disk) Full() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.full
}

// Do carries out a call of the database, which may have to wait for room. What is given up
// goes on waiting by itself, and the error is ErrFull.
func (d *Disk) Do(f func() error) error {
	if !d.begin() {
		return ErrFull
	}
	done := make(chan error, 1)
	go func() {
		defer d.calls.Done()
		done <- Survive(f)
	}()
	select {
	case err := <-done:
		return err
	case <-d.gone.Done():
		return ErrFull
	}
}

// fatal is what the database cannot go on after.
type fatal string

// Survive calls the database, and turns the end that it wants to make into an error.
func Survive(f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatal:
			err = errors.New(string(r))
		default:
			panic(r)
		}
	}()
	return f()
}
