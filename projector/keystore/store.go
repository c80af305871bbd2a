// Package keystore remembers at which stream sequence each event identity was
// first seen.
//
// It forgets none. An identity could be forgotten only if a repeat of it could be
// recognized in another way, or could not arrive. Neither is so: the events table
// is ordered by time, so a lookup of an identity would read all of it; and a
// backfilled event may have any age, even be of a month whose events have been
// summarized and removed (package retention).
//
// A store that has lost some of its files may open without an error, and would
// then take known events for new. So it has to prove what it knows:
//
//  1. Each commit has, beside the identities, a ledger: the position, and the
//     sum (identity.Sum) of all identities in the store.
//  2. Each table has in its properties the sum of its identities, and
//     its bounds. Open compares their sum with the ledger, and the bounds with
//     those that the database knows. It reads no identities for that.
//  3. The ledger says what was known at the ends of the last batches. The
//     projector keeps the sum in its checkpoint as well, and compares
//     the two, so that a store whose files agree with each other, but are those
//     of another group or of another life, does not pass.
//  4. A store that has lost its end, which a loss of power may cause, says so by
//     its position, and is filled from there.
//
// Blocks of a table have checksums of their own, and are read by Fold alone,
// which returns an error that IsDamaged knows.
//
// Nearly every identity that is folded is new. A Bloom filter in memory, which is
// never on disk, tells most of them from those that the store holds (filter.go).
// So the tables are made for writing: many of them wait until they are merged.
package keystore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/internal/diskroom"
	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// Store maps identities to the sequence of their first sighting, on disk. It
// is written by one goroutine at a time.
type Store struct {
	db      *pebble.DB
	cache   *pebble.Cache
	disk    *diskroom.Disk
	lock    *pebble.Lock
	log     diskroom.Logger
	release func() bool
	closing sync.Once
	damage  damage
	aliases atomic.Bool // there are some
	filter  filter
	ledger
}

// Options of a Store. The zero value of a field stands for its default.
type Options struct {
	CacheBytes    int64  // block cache; default 32 MiB
	MemTableBytes uint64 // of a write buffer, of which there are up to three; default 16 MiB
	// Filters bounds the memory of filters, which stores may share; default 64 MiB
	// for this one.
	Filters *FilterMemory
	Logger  *slog.Logger
}

// Open opens or creates the store in a folder. A folder that another process
// has open is an error. While the disk is full, calls wait until there is room
// or ctx ends, and return ErrFull then.
func Open(ctx context.Context, dir string, o Options) (*Store, error) {
	return openIn(ctx, vfs.Default, dir, o)
}

func openIn(ctx context.Context, files vfs.FS, dir string, o Options) (*Store, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 16 << 20
	}
	log := diskroom.Logger{Name: "key store", Log: o.Logger}
	s := &Store{log: log}
	s.disk, s.release = diskroom.New(ctx, files, dir, log)
	// Write buffers are taken off the cache's size. There are two, but for a moment.
	s.cache = pebble.NewCache(o.CacheBytes + 2*int64(o.MemTableBytes))
	opts := &pebble.Options{
		Cache:              s.cache,
		FS:                 s.disk.FS,
		EventListener:      &pebble.EventListener{DataCorruption: s.damage.note, BackgroundError: log.Background},
		MemTableSize:       o.MemTableBytes,
		FormatMajorVersion: pebble.FormatNewest,
		LBaseMaxBytes:      256 << 20,
		Logger:             log,
		// A batch of a backlog is a table of its own, whatever the size of write buffers.
		// Merging begins when a key may be in 32 tables of L0 (the threshold is twice
		// that): each merge writes most of the store again, so that few large ones
		// cost less than many small ones. The filter spares new identities the
		// tables, and only repeats are looked for in so many.
		L0CompactionThreshold: 64,
		L0StopWritesThreshold: 128,

		BlockPropertyCollectors: []func() pebble.BlockPropertyCollector{newCollector},
	}
	for i := range opts.Levels {
		// Small files have small filters, which the cache can keep.
		opts.TargetFileSizes[i] = 4 << 20
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].FilterType = pebble.TableFilter
		opts.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // hashes
	}
	if err := s.open(dir, opts); err != nil {
		s.release()
		return nil, fmt.Errorf("open key store %s: %w", dir, err)
	}
	s.filter.start(o.Filters, s.held.Count)
	return s, nil
}

func (s *Store) open(dir string, opts *pebble.Options) error {
	err := s.disk.Do(func() (err error) {
		if err := opts.FS.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if opts.Lock, err = pebble.LockDirectory(dir, opts.FS); err != nil {
			return fmt.Errorf("it is in use, or can't be locked: %w", err)
		}
		s.lock = opts.Lock
		return s.openProven(dir, opts)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFull):
		s.closeLater()
		return err
	}
	return errors.Join(err, s.shut())
}

// openProven opens the database twice: first to prove what is in its tables, and
// then to use it. Tables that contradict each other would end the process while
// they are merged, so they are not merged before.
func (s *Store) openProven(dir string, opts *pebble.Options) (err error) {
	unmerged := opts.Clone()
	unmerged.DisableAutomaticCompactions = true
	if s.db, err = pebble.Open(dir, unmerged); err != nil {
		return asDamage(err)
	}
	if s.ledger, err = s.loadLedger(); err != nil {
		return err
	}
	if err := s.loadAliases(); err != nil {
		return err
	}
	if err := s.prove(); err != nil {
		return err
	}
	proven := s.db
	s.db = nil
	if err := proven.Close(); err != nil {
		return err
	}
	if s.db, err = pebble.Open(dir, opts); err != nil {
		return asDamage(err)
	}
	return nil
}

// shut closes what is open, once.
func (s *Store) shut() (err error) {
	s.closing.Do(func() {
		if s.db != nil {
			err = s.db.Close()
		}
		s.cache.Unref()
		s.filter.stop()
		if s.lock != nil {
			err = errors.Join(err, s.lock.Close())
		}
	})
	return err
}

// closeLater closes a store that has been given up as soon as there is room.
func (s *Store) closeLater() {
	go func() {
		s.disk.Wait()
		if err := diskroom.Survive(s.shut); err != nil {
			s.log.Errorf("close after the disk was full: %v", err)
		}
	}()
}

// Applied returns the sequence up to which the store knows every identity.
func (s *Store) Applied() uint64 { return s.applied }

// Empty tells whether the store holds no identity.
func (s *Store) Empty() bool { return s.applied == 0 && s.held.Count == 0 }

// Known returns the sum of the identities first seen at sequences up to
// one. The store knows it of the ends of the last batches and of 0. Of another
// sequence it is an error of damage, for nothing tells whether it knows them all.
func (s *Store) Known(at uint64) (checkpoint.Sum, error) {
	known, ok := s.known(at)
	if !ok {
		return known, fmt.Errorf("%w: it does not say which identities it knew at sequence %d; it has applied %d",
			ErrDamaged, at, s.applied)
	}
	return known, nil
}

// Before returns the last sequence, not behind another one, at which the store
// says what it knew, and 0 when there is none.
func (s *Store) Before(at uint64) (last uint64) {
	for _, m := range s.marks {
		if m.at <= at {
			last = max(last, m.at)
		}
	}
	return last
}

// Sync makes what has been applied survive a loss of power. It may run beside
// the other methods.
func (s *Store) Sync() error {
	err := s.disk.Do(func() error { return s.db.LogData(nil, pebble.Sync) })
	if err != nil {
		return fmt.Errorf("sync key store: %w", err)
	}
	return nil
}

// Bytes is how much disk the store takes. It may run beside the other methods.
func (s *Store) Bytes() (uint64, error) {
	var size uint64
	err := s.disk.Do(func() error {
		size = s.db.Metrics().DiskSpaceUsage()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure key store: %w", err)
	}
	return size, nil
}

// Full tells whether the store waits for room on its disk.
func (s *Store) Full() bool { return s.disk.Full() }

// Close closes the store. It waits for no room: on a full disk the store is
// closed when there is some, unless the process ends before, and is whole in
// either case.
func (s *Store) Close() error {
	s.release()
	s.disk.End()
	err := s.disk.Do(s.shut)
	if errors.Is(err, ErrFull) {
		s.closeLater()
		return nil
	}
	if err != nil {
		return fmt.Errorf("close key store: %w", err)
	}
	return nil
}
