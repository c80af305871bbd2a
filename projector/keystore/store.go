// Package keystore remembers at which stream sequence each event identity was
// first seen.
package keystore

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/millrace-io/millrace/schemas/event"
)

// Store maps identities to the sequence of their first sighting, on disk. It
// is written by one goroutine at a time.
type Store struct {
	db      *pebble.DB
	cache   *pebble.Cache
	applied uint64
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
// has open is an error.
func Open(dir string, o Options) (*Store, error) {
	if o.CacheBytes == 0 {
		o.CacheBytes = 32 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 16 << 20
	}
	// Write buffers are taken off the cache's size.
	cache := pebble.NewCache(o.CacheBytes + 3*int64(o.MemTableBytes))
	opts := &pebble.Options{
		Cache:                 cache,
		MemTableSize:          o.MemTableBytes,
		L0CompactionThreshold: 8,
		FormatMajorVersion:    pebble.FormatNewest,
		LBaseMaxBytes:         256 << 20,
		Logger:                logger{o.Logger},
	}
	for i := range opts.Levels {
		// Small files have small filters, which the cache can keep.
		opts.TargetFileSizes[i] = 4 << 20
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].FilterType = pebble.TableFilter
		opts.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // hashes
	}
	db, err := pebble.Open(dir, opts)
	if err != nil {
		cache.Unref()
		return nil, fmt.Errorf("open key store %s: %w", dir, err)
	}
	s := &Store{db: db, cache: cache}
	if s.applied, err = s.loadApplied(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
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
		return 0, fmt.Errorf("read key store position: %d bytes", len(value))
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
				return nil, fmt.Errorf("identity %x has a value of %d bytes", key, len(value))
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
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		return fmt.Errorf("sync key store: %w", err)
	}
	return nil
}

// Close closes the store.
func (s *Store) Close() error {
	err := s.db.Close()
	s.cache.Unref()
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

func (l logger) Fatalf(format string, args ...any) {
	panic("key store: " + fmt.Sprintf(format, args...))
}

// IsDamaged tells whether a store could not be opened because its files are
// not what they should be.
func IsDamaged(err error) bool { return err != nil && pebble.IsCorruptionError(err) }
