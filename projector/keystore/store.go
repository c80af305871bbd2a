// Package keystore remembers at which stream sequence each event identity was
// first seen.
//
// It forgets none. What could be forgotten without counting a repeat is what
// could be told otherwise, or can't be sent again, and there is no such thing:
// the events table is in the order of time, so that asking it for identities
// reads all of it; and an event of any age is taken when it is backfilled, also
// of a month whose events have been summed up and removed (package retention).
package keystore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace-io/millrace/schemas/event"
)

// Store maps identities to the sequence of their first sighting, on disk. It
// is written by one goroutine at a time.
type Store struct {
	db      *pebble.DB
	cache   *pebble.Cache
	disk    *disk
	lock    *pebble.Lock
	release func() bool
	closing sync.Once
	applied uint64
	damage  damage
}

// appliedKey is shorter than an identity and so can't be one.
var appliedKey = []byte("applied")

// Options of a Store. The zero value of a field stands for its default.
type Options struct {
	CacheBytes    int64  // block cache; default 32 MiB
	MemTableBytes uint64 // of a write buffer, of which there are up to three; default 16 MiB
	Logger        *slog.Logger
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
	log := logger{o.Logger}
	s := &Store{}
	s.disk, s.release = newDisk(ctx, files, dir, log)
	// Write buffers are taken off the cache's size.
	s.cache = pebble.NewCache(o.CacheBytes + 3*int64(o.MemTableBytes))
	opts := &pebble.Options{
		Cache:                 s.cache,
		FS:                    s.disk.fs,
		EventListener:         &pebble.EventListener{DataCorruption: s.damage.note, BackgroundError: log.background},
		MemTableSize:          o.MemTableBytes,
		L0CompactionThreshold: 8,
		FormatMajorVersion:    pebble.FormatNewest,
		LBaseMaxBytes:         256 << 20,
		Logger:                log,
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
	var err error
	if s.applied, err = s.loadApplied(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open(dir string, opts *pebble.Options) error {
	err := s.disk.do(func() (err error) {
		if err := opts.FS.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if opts.Lock, err = pebble.LockDirectory(dir, opts.FS); err != nil {
			return fmt.Errorf("it is in use, or can't be locked: %w", err)
		}
		s.lock = opts.Lock
		if s.db, err = pebble.Open(dir, opts); err != nil {
			return asDamage(err)
		}
		return nil
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

// shut closes what is open, once.
func (s *Store) shut() (err error) {
	s.closing.Do(func() {
		if s.db != nil {
			err = s.db.Close()
		}
		s.cache.Unref()
		if s.lock != nil {
			err = errors.Join(err, s.lock.Close())
		}
	})
	return err
}

// closeLater closes a store that has been given up as soon as there is room.
func (s *Store) closeLater() {
	go func() {
		s.disk.calls.Wait()
		if err := survive(s.shut); err != nil {
			s.disk.log.Errorf("close after the disk was full: %v", err)
		}
	}()
}

func (s *Store) loadApplied() (uint64, error) {
	value, closer, err := s.db.Get(appliedKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read key store position: %w", err)
	}
	defer closer.Close()
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: its position has %d bytes", errDamaged, len(value))
	}
	return binary.LittleEndian.Uint64(value), nil
}

// Applied returns the sequence up to which the store knows every identity.
func (s *Store) Applied() uint64 { return s.applied }

// Sighting is an identity at a stream sequence.
type Sighting struct {
	hi, lo uint64 // the identity, big-endian, so that it sorts as in the database
	seq    uint64
	row    int32
}

// See returns the sighting of an identity at a sequence.
func See(id event.Identity, seq uint64) Sighting {
	return Sighting{hi: binary.BigEndian.Uint64(id[:8]), lo: binary.BigEndian.Uint64(id[8:]), seq: seq}
}

// Fold takes the sightings of a batch, in the order of the stream, and returns
// the places of those that are not the first of their identity, in no order.
// It remembers the first ones and that the store knows everything up to the
// sequence upTo. Folding the same batch again gives the same answer.
//
// What it has written survives a crash of the process at once, and one of the
// machine after Sync. Fold reorders the slice.
func (s *Store) Fold(sightings []Sighting, upTo uint64) (repeated []int32, err error) {
	for i := range sightings {
		sightings[i].row = int32(i)
	}
	// Sorted, the whole batch is one pass over the database, and one run of
	// inserts in order.
	slices.SortFunc(sightings, func(a, b Sighting) int {
		return cmp.Or(cmp.Compare(a.hi, b.hi), cmp.Compare(a.lo, b.lo), cmp.Compare(a.row, b.row))
	})
	err = s.disk.do(func() (err error) {
		repeated, err = s.fold(sightings, upTo)
		return err
	})
	if err == nil {
		err = s.damage.found() // by whoever reads in the background
	}
	if err != nil {
		return nil, err
	}
	return repeated, nil
}

func (s *Store) fold(sightings []Sighting, upTo uint64) (repeated []int32, err error) {
	known, err := s.db.NewIter(&pebble.IterOptions{UseL6Filters: true})
	if err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	batch := s.db.NewBatchWithSize(len(sightings)*32 + 64)
	defer batch.Close()
	repeated, err = s.merge(sightings, known, batch)
	if err = errors.Join(err, known.Close()); err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	return repeated, s.commit(batch, upTo)
}

// merge compares sorted sightings with what is known and adds the new ones to
// the batch.
func (s *Store) merge(sightings []Sighting, known *pebble.Iterator, batch *pebble.Batch) (repeated []int32, err error) {
	var first uint64 // sequence at which the current identity was first seen
	var key [16]byte
	for i, now := range sightings {
		if i > 0 && now.hi == sightings[i-1].hi && now.lo == sightings[i-1].lo {
			repeated = append(repeated, now.row)
			continue
		}
		binary.BigEndian.PutUint64(key[:8], now.hi)
		binary.BigEndian.PutUint64(key[8:], now.lo)
		if known.SeekPrefixGE(key[:]) && bytes.Equal(known.Key(), key[:]) {
			value, err := known.ValueAndErr()
			if err != nil {
				return nil, err
			}
			if len(value) != 8 {
				return nil, fmt.Errorf("%w: identity %x has a value of %d bytes", errDamaged, key, len(value))
			}
			if first = binary.LittleEndian.Uint64(value); first != now.seq {
				repeated = append(repeated, now.row)
			}
			continue
		}
		if err := known.Error(); err != nil {
			return nil, err
		}
		if err := put(batch, key[:], now.seq); err != nil {
			return nil, err
		}
	}
	return repeated, nil
}

func put(batch *pebble.Batch, key []byte, seq uint64) error {
	op := batch.SetDeferred(len(key), 8)
	copy(op.Key, key)
	binary.LittleEndian.PutUint64(op.Value, seq)
	return op.Finish()
}

func (s *Store) commit(batch *pebble.Batch, upTo uint64) error {
	upTo = max(upTo, s.applied)
	if err := put(batch, appliedKey, upTo); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("write key store: %w", err)
	}
	s.applied = upTo
	return nil
}

// Sync makes what has been applied survive a loss of power. It may run beside
// the other methods.
func (s *Store) Sync() error {
	err := s.disk.do(func() error { return s.db.LogData(nil, pebble.Sync) })
	if err != nil {
		return fmt.Errorf("sync key store: %w", err)
	}
	return nil
}

// Bytes is how much disk the store takes. It may run beside the other methods.
func (s *Store) Bytes() (uint64, error) {
	var size uint64
	err := s.disk.do(func() error {
		size = s.db.Metrics().DiskSpaceUsage()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure key store: %w", err)
	}
	return size, nil
}

// Full tells whether the store waits for room on its disk.
func (s *Store) Full() bool { return s.disk.isFull() }

// Close closes the store. It waits for no room: on a full disk the store is
// closed when there is some, unless the process ends before, and is whole in
// either case.
func (s *Store) Close() error {
	s.release()
	s.disk.set(&s.disk.ending, true)
	err := s.disk.do(s.shut)
	if errors.Is(err, ErrFull) {
		s.closeLater()
		return nil
	}
	if err != nil {
		return fmt.Errorf("close key store: %w", err)
	}
	return nil
}

// logger hands the database's messages on, at a level where they do not
// disturb.
type logger struct{ log *slog.Logger }

func (l logger) Infof(format string, args ...any) {
	if l.log != nil {
		l.log.Debug("key store: " + fmt.Sprintf(format, args...))
	}
}

func (l logger) Errorf(format string, args ...any) {
	if l.log != nil {
		l.log.Error("key store: " + fmt.Sprintf(format, args...))
	}
}

// background tells of what failed beside the calls, and is tried again.
func (l logger) background(err error) { l.Errorf("in the background: %v", err) }

func (l logger) Fatalf(format string, args ...any) { panic(fatal(fmt.Sprintf(format, args...))) }
