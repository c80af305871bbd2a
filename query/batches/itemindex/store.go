package itemindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/diskroom"
)

// Memory of a store, in bytes. There are up to three write buffers.
const (
	cacheSize  = 16 << 20
	bufferSize = 8 << 20
)

// form is the version of keys and values. A store of another one is made again.
const form = 1

// state says what is in a store.
type state struct {
	Form     int    `json:"form"`
	Baseline string `json:"baseline"` // of the rows
	Applied  uint64 `json:"applied"`  // up to which sequence every row is there
	Seen     uint64 `json:"seen"`     // the highest sequence of a row
	Outcomes uint64 `json:"outcomes"` // rows of ClickHouse that were read
}

var stateKey = []byte("state")

// errDamaged is the error of a store whose files can't be read.
var errDamaged = errors.New("the index is damaged")

// store is the index on disk. One goroutine writes; any number read.
type store struct {
	dir     string
	db      *pebble.DB
	cache   *pebble.Cache
	lock    *pebble.Lock
	disk    *diskroom.Disk
	release func() bool
	damage  atomic.Pointer[pebble.DataCorruptionInfo]
	state   state
	filled  bool // the state is that of the rows
}

// openStore opens or makes the store in a folder. One that can't be read is removed, with an
// error.
func openStore(ctx context.Context, files vfs.FS, dir string, log *slog.Logger) (*store, error) {
	logger := diskroom.Logger{Name: "index of items", Log: log}
	s := &store{dir: dir, cache: pebble.NewCache(cacheSize + 2*bufferSize)}
	s.disk, s.release = diskroom.New(ctx, files, dir, logger)
	opts := &pebble.Options{
		Cache: s.cache, FS: s.disk.FS, MemTableSize: bufferSize, FormatMajorVersion: pebble.FormatNewest, Logger: logger,
		DisableWAL: true, // what is lost is read again
		EventListener: &pebble.EventListener{
			DataCorruption:  func(i pebble.DataCorruptionInfo) { s.damage.CompareAndSwap(nil, &i) },
			BackgroundError: logger.Background,
		},
	}
	err := s.disk.Do(func() (err error) {
		if err := files.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if s.lock, err = pebble.LockDirectory(dir, s.disk.FS); err != nil {
			return fmt.Errorf("it is in use, or can't be locked: %w", err)
		}
		opts.Lock = s.lock
		if s.db, err = pebble.Open(dir, opts); err != nil {
			return asDamage(err)
		}
		return s.load()
	})
	if errors.Is(err, errDamaged) {
		err = errors.Join(err, s.remove())
	} else if err != nil {
		err = errors.Join(err, s.close())
	}
	if err != nil {
		return nil, fmt.Errorf("open the index %s: %w", dir, err)
	}
	return s, nil
}

// asDamage makes damage of an error, unless the system has refused something.
func asDamage(err error) error {
	var refused syscall.Errno
	if errors.Is(err, diskroom.ErrFull) || errors.As(err, &refused) && refused != syscall.ENOENT {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

func (s *store) load() error {
	value, closer, err := s.db.Get(stateKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return s.mustBeEmpty()
	}
	if err != nil {
		return asDamage(err)
	}
	defer closer.Close()
	if err := json.Unmarshal(value, &s.state); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	if s.state.Form != form {
		return fmt.Errorf("%w: its form is %d, and that of this release %d", errDamaged, s.state.Form, form)
	}
	s.filled = true
	return nil
}

// mustBeEmpty returns damage where there are rows: who wrote them did not finish, and they may
// be of another baseline than the present one.
func (s *store) mustBeEmpty() error {
	rows, err := s.db.NewIter(nil)
	if err != nil {
		return asDamage(err)
	}
	there := rows.First()
	if err := rows.Close(); err != nil {
		return asDamage(err)
	}
	if there {
		return fmt.Errorf("%w: it was not finished", errDamaged)
	}
	return nil
}

// found is the damage that was found while the files were read, if any.
func (s *store) found() error {
	if info := s.damage.Load(); info != nil {
		return fmt.Errorf("%w: %s: %w", errDamaged, info.Path, info.Details)
	}
	return nil
}

// find returns the rows with a content id, at most so many.
func (s *store) find(id string, limit int) (all []Row, err error) {
	lower := prefix(nil, id)
	rows, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: append(prefix(nil, id), 0xff)})
	if err != nil {
		return nil, asDamage(err)
	}
	for ok := rows.First(); ok && len(all) < limit; ok = rows.Next() {
		value, err := rows.ValueAndErr()
		if err != nil {
			return nil, errors.Join(asDamage(err), rows.Close())
		}
		r, err := parse(id, rows.Key(), value)
		if err != nil {
			return nil, errors.Join(asDamage(err), rows.Close())
		}
		all = append(all, r)
	}
	if err := rows.Close(); err != nil {
		return nil, asDamage(err)
	}
	return all, nil
}

// has tells whether a key is there.
func (s *store) has(key []byte) (bool, error) {
	_, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, asDamage(err)
	}
	return true, closer.Close()
}

// commit writes a batch, and empties it.
func (s *store) commit(b *pebble.Batch) error {
	err := s.disk.Do(func() error { return b.Commit(pebble.NoSync) })
	b.Reset()
	return errors.Join(err, s.found())
}

// save writes what is in the store, behind the rows. With flush, what was written survives the
// process.
func (s *store) save(next state, flush bool) error {
	next.Form = form
	value, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("write the state of the index: %w", err)
	}
	err = s.disk.Do(func() error {
		err := s.db.Set(stateKey, value, pebble.NoSync)
		if err == nil && flush {
			err = s.db.Flush()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write the state of the index: %w", err)
	}
	s.state, s.filled = next, true
	return nil
}

// close closes the store, with all that was written. On a full disk that is done as soon as
// there is room, and the error is ErrFull.
func (s *store) close() error {
	s.release()
	s.disk.End()
	err := s.disk.Do(s.shut)
	if errors.Is(err, diskroom.ErrFull) {
		go func() {
			s.disk.Wait()
			_ = diskroom.Survive(s.shut) // nobody waits for it
		}()
	}
	if err != nil {
		return fmt.Errorf("close the index: %w", err)
	}
	return nil
}

func (s *store) shut() (err error) {
	if s.db != nil {
		err = errors.Join(s.db.Flush(), s.db.Close())
	}
	s.cache.Unref()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// remove closes the store and removes its files, unless it still writes to them.
func (s *store) remove() error {
	if err := s.close(); errors.Is(err, diskroom.ErrFull) {
		return err
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the index: %w", err)
	}
	return nil
}

// size is how many bytes of disk the store takes.
func (s *store) size() uint64 { return s.db.Metrics().DiskSpaceUsage() }
