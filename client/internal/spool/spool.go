// Package spool is a queue of records on disk for one process.
//
//  1. A record that Append has taken survives the end of the process in any
//     way, and what ends the machine when it is older than Config.SyncEvery.
//  2. Records are read in the order in which they were appended. What Drop has
//     dropped may be read again after a crash: some records, from the front.
//  3. A record is returned as it was appended, or not at all: each carries a
//     checksum. A tail that was cut off in the middle of a write is cut back to
//     whole records; files that are damaged are kept aside, under the name
//     damaged-<time>, and the queue begins anew. Files that merely cannot be
//     read now, such as for want of descriptors, stay as they are: that is an
//     error, and the next call tries again. Whole records that are gone with
//     their files, from the front, the end or all of them, are missed when the
//     spool is opened, as far as they had been synced.
//  4. The records that wait take at most Config.MaxBytes.
package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/wal"
)

// ErrFull is the error of Append when the records would exceed MaxBytes.
var ErrFull = errors.New("spool is full")

// segmentSize is that of the files, in bytes. Dropping rewrites one of them.
const segmentSize = 1 << 20

// frame is what a record takes on disk beside its bytes, at most: the log's
// own length and the checksum.
const frame = 14

var table = crc32.MakeTable(crc32.Castagnoli)

// Config shapes a spool.
type Config struct {
	Dir       string        // made when missing; one process at a time
	MaxBytes  int64         // of the records that wait
	SyncEvery time.Duration // how often writes are synced to disk; 0: each
	Lost      func(n int)   // told how many records are lost to damage, at least; must not call the spool
	Log       *slog.Logger
}

// Spool is safe for concurrent use.
type Spool struct {
	cfg    Config
	unlock func() error

	mu      sync.Mutex
	log     *wal.Log // nil after an error, until it can be opened again
	next    uint64   // index of the first record that was not dropped
	end     uint64   // index after the last record
	bytes   int64    // of the records that wait
	dropped int64    // bytes that were dropped and lie on disk
	given   given
	purged  time.Time
	dirty   bool
	timer   *time.Timer // syncs; nil when every write does
	closed  bool

	waiting, waitingBytes atomic.Int64 // what Len returns while the disk keeps the lock
}

// given is what Read has returned and Drop is to remove.
type given struct {
	to      uint64 // index after the last of the records; 0: there is nothing
	bytes   int64
	damaged int // records among them that were not returned
}

// Open opens a spool, which no other process may have open.
func Open(cfg Config) (*Spool, error) {
	if err := os.MkdirAll(cfg.Dir, 0o750); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	unlock, err := lock(filepath.Join(cfg.Dir, "LOCK"))
	if err != nil {
		return nil, fmt.Errorf("open spool %s: %w", cfg.Dir, err)
	}
	s := &Spool{cfg: cfg, unlock: unlock}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	s.count()
	if cfg.SyncEvery > 0 {
		s.timer = time.AfterFunc(time.Hour, s.sync)
		s.timer.Stop()
	}
	return s, nil
}

// Append adds records at the end, all or none.
func (s *Spool) Append(records [][]byte) error {
	s.mu.Lock()
	defer s.leave()
	if err := s.ready(); err != nil {
		return err
	}
	var batch wal.Batch
	size, at := int64(0), s.end
	for _, r := range records {
		batch.Write(at, binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(r)+4), r...),
			crc32.Checksum(r, table)))
		size += int64(len(r)) + frame
		at++
	}
	if s.bytes+size > s.cfg.MaxBytes {
		return ErrFull
	}
	if err := s.log.WriteBatch(&batch); err != nil {
		s.shut() // the log in memory is not what is on disk now
		return fmt.Errorf("write to spool %s: %w", s.cfg.Dir, err)
	}
	s.end, s.bytes = at, s.bytes+size
	if s.timer == nil {
		s.note()
	} else if !s.dirty {
		s.dirty = true
		s.timer.Reset(s.cfg.SyncEvery)
	}
	return nil
}

// Read returns records from the front, at most so many and about so many
// bytes, but one if there is any. They stay until they are dropped.
func (s *Spool) Read(limit, maxBytes int) (records [][]byte, err error) {
	s.mu.Lock()
	defer s.leave()
	if err := s.ready(); err != nil {
		return nil, err
	}
	s.given = given{}
	g := given{to: s.next}
	for size := 0; g.to < s.end && len(records) < limit && size < maxBytes; g.to++ {
		data, err := s.record(g.to)
		if isDamage(err) {
			s.shut()
			return nil, s.setAside(err)
		}
		if err != nil {
			return nil, fmt.Errorf("read spool %s: %w", s.cfg.Dir, err)
		}
		r, ok := check(data)
		if !ok {
			g.damaged++
			continue
		}
		records = append(records, r)
		size += len(r)
		g.bytes += int64(len(r)) + frame
	}
	if s.given = g; len(records) == 0 {
		return nil, s.drop() // damaged ones, if any
	}
	return records, nil
}

// record reads a record. The log takes it for granted that files are as long as
// the names of those after them say.
func (s *Spool) record(index uint64) (data []byte, err error) {
	err = guard(func() (err error) {
		data, err = s.log.Read(index)
		return err
	})
	return data, err
}

// guard makes an error of a panic of the log, which files cause that were cut.
func guard(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", wal.ErrCorrupt, v)
		}
	}()
	return call()
}

// isDamage tells what is wrong with the files from what keeps them from being
// read.
func isDamage(err error) bool {
	return errors.Is(err, wal.ErrCorrupt) || errors.Is(err, wal.ErrNotFound) || errors.Is(err, os.ErrNotExist)
}

func check(data []byte) ([]byte, bool) {
	n := len(data) - 4
	if n < 0 {
		return nil, false
	}
	return data[:n:n], crc32.Checksum(data[:n], table) == binary.LittleEndian.Uint32(data[n:])
}

// Drop removes what Read returned last, once. Records of a queue that has begun
// anew since then stay.
func (s *Spool) Drop() error {
	s.mu.Lock()
	defer s.leave()
	return s.drop()
}

func (s *Spool) drop() error {
	g := s.given
	s.given = given{}
	if g.to <= s.next {
		return nil
	}
	s.next = g.to
	s.bytes, s.dropped = max(0, s.bytes-g.bytes), s.dropped+g.bytes
	if s.next == s.end {
		s.bytes = 0
	}
	if g.damaged > 0 {
		s.cfg.Lost(g.damaged)
	}
	if s.dropped >= segmentSize || (s.next == s.end && time.Since(s.purged) > time.Second) {
		return s.purge()
	}
	return nil
}

// purge removes from disk what was dropped.
func (s *Spool) purge() error {
	if s.dropped == 0 {
		return nil
	}
	if err := s.ready(); err != nil {
		return err
	}
	if err := s.write(true); err != nil { // the next one tries again
		s.cfg.Log.Warn("what was sent stays in the spool for now", "dir", s.cfg.Dir, "error", err)
		return nil
	}
	if err := guard(func() error { return s.log.TruncateFront(s.next) }); err != nil {
		s.shut()
		return fmt.Errorf("truncate spool %s: %w", s.cfg.Dir, err)
	}
	s.dropped, s.purged = 0, time.Now()
	return nil
}

// Len returns how many records wait, and their bytes. It does not wait for a
// disk that hangs.
func (s *Spool) Len() (records int, bytes int64) {
	return int(s.waiting.Load()), s.waitingBytes.Load()
}

// leave ends a call that may have changed what waits.
func (s *Spool) leave() {
	s.count()
	s.mu.Unlock()
}

func (s *Spool) count() {
	s.waiting.Store(int64(s.end - s.next))
	s.waitingBytes.Store(s.bytes)
}

func (s *Spool) sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = false
	if s.log == nil {
		return
	}
	if err := s.log.Sync(); err != nil {
		s.cfg.Log.Warn("spool is not synced to disk", "dir", s.cfg.Dir, "error", err)
		return
	}
	s.note()
}

// Close syncs and closes. Closing twice is fine.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	err := s.purge()
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
		s.note()
		s.log = nil
	}
	return errors.Join(err, s.unlock())
}
