// Package spool is a queue of records on disk for one process.
//
//  1. A record that Append has taken survives the end of the process in any
//     way, and what ends the machine when it is older than Config.SyncEvery.
//  2. Records are read in the order in which they were appended. What Drop has
//     dropped may be read again after a crash: some records, from the front.
//  3. A record is returned as it was appended, or not at all: each carries a
//     checksum. A tail that was cut off in the middle of a write is cut back to
//     whole records; files that cannot be read are kept aside, under the name
//     damaged-<time>, and the queue begins anew.
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
	Log       *slog.Logger
}

// Spool is safe for concurrent use.
type Spool struct {
	cfg    Config
	unlock func() error

	mu      sync.Mutex
	log     *wal.Log
	next    uint64 // index of the first record that was not dropped
	end     uint64 // index after the last record
	bytes   int64  // of the records that wait
	dropped int64  // bytes that were dropped and lie on disk
	purged  time.Time
	damaged uint64
	dirty   bool
	timer   *time.Timer // syncs; nil when every write does
	closed  bool
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
	if cfg.SyncEvery > 0 {
		s.timer = time.AfterFunc(time.Hour, s.sync)
		s.timer.Stop()
	}
	return s, nil
}

// Append adds records at the end, all or none.
func (s *Spool) Append(records [][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	var batch wal.Batch
	size, at := int64(0), s.end
	for _, r := range records {
		batch.Write(at, binary.LittleEndian.AppendUint32(append(make([]byte, 0, len(r)+4), r...), crc32.Checksum(r, table)))
		size += int64(len(r)) + frame
		at++
	}
	if s.bytes+size > s.cfg.MaxBytes {
		return ErrFull
	}
	if err := s.log.WriteBatch(&batch); err != nil {
		// The log in memory is not what is on disk now.
		return fmt.Errorf("write to spool %s: %w", s.cfg.Dir, errors.Join(err, s.reopen()))
	}
	s.end, s.bytes = at, s.bytes+size
	if !s.dirty && s.timer != nil {
		s.dirty = true
		s.timer.Reset(s.cfg.SyncEvery)
	}
	return nil
}

// Read returns records from the front, at most so many and about so many
// bytes, but one if there is any. They stay until they are dropped. Skipped
// counts damaged records before, among and after them, to be dropped as well.
func (s *Spool) Read(limit, maxBytes int) (records [][]byte, skipped int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, os.ErrClosed
	}
	for at, size := s.next, 0; at < s.end && len(records) < limit && size < maxBytes; at++ {
		data, err := s.log.Read(at)
		if err != nil {
			return nil, 0, s.setAside(err)
		}
		r, ok := check(data)
		if !ok {
			skipped++
			continue
		}
		records = append(records, r)
		size += len(r)
	}
	return records, skipped, nil
}

func check(data []byte) ([]byte, bool) {
	n := len(data) - 4
	if n < 0 {
		return nil, false
	}
	return data[:n:n], crc32.Checksum(data[:n], table) == binary.LittleEndian.Uint32(data[n:])
}

// Drop removes records that Read returned, and those it skipped, from the
// front; bytes are those of the records.
func (s *Spool) Drop(records [][]byte, skipped int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(0)
	for _, r := range records {
		size += int64(len(r)) + frame
	}
	s.next = min(s.next+uint64(len(records)+skipped), s.end)
	s.damaged += uint64(skipped)
	s.bytes, s.dropped = max(0, s.bytes-size), s.dropped+size
	if s.next == s.end {
		s.bytes = 0
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
	if err := s.log.TruncateFront(s.next); err != nil {
		return fmt.Errorf("truncate spool %s: %w", s.cfg.Dir, errors.Join(err, s.reopen()))
	}
	s.dropped, s.purged = 0, time.Now()
	return nil
}

// Len returns how many records wait, and their bytes.
func (s *Spool) Len() (records int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(s.end - s.next), s.bytes
}

// Damaged counts records that were lost to damage.
func (s *Spool) Damaged() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.damaged
}

func (s *Spool) sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.dirty = false
	if err := s.log.Sync(); err != nil {
		s.cfg.Log.Warn("spool is not synced to disk", "dir", s.cfg.Dir, "error", err)
	}
}

// Close syncs and closes. Closing twice is fine.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.timer != nil {
		s.timer.Stop()
	}
	return errors.Join(s.purge(), s.log.Close(), s.unlock())
}
