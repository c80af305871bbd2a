package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/wal"
)

// files is the folder of the log within the spool's own.
func (s *Spool) files() string { return filepath.Join(s.cfg.Dir, "queue") }

// ready opens the log again after an error.
func (s *Spool) ready() error {
	switch {
	case s.closed:
		return os.ErrClosed
	case s.log != nil:
		return nil
	}
	return s.open()
}

// open opens the log. A log that is damaged beyond its tail is set aside.
func (s *Spool) open() error {
	cut, err := repairTail(s.files())
	if err != nil {
		return fmt.Errorf("repair spool %s: %w", s.cfg.Dir, err)
	}
	lost := 0
	if cut > 0 {
		if s.end == 0 { // else it is of a call of Append that has failed
			lost = 1
		}
		s.cfg.Log.Warn("spool ended in the middle of a record, which is cut off", "dir", s.cfg.Dir, "bytes", cut)
	}
	if err := s.load(); isDamage(err) {
		s.lose(lost)
		return s.setAside(err)
	} else if err != nil {
		return fmt.Errorf("open spool %s: %w", s.cfg.Dir, err)
	}
	s.lose(max(lost, s.missing()))
	s.note()
	return nil
}

// missing is how many records waited and are gone with the files that had them.
func (s *Spool) missing() int {
	before, err := s.noted()
	first := s.next
	if err == nil {
		first, err = s.log.FirstIndex() // what was dropped may lie on disk still
	}
	if err != nil {
		s.cfg.Log.Warn("how many records waited in the spool cannot be read", "dir", s.cfg.Dir, "error", err)
		return 0
	}
	n := int(before.missing(extent{first, s.end}))
	if n > 0 {
		s.cfg.Log.Error("records of the spool are gone", "dir", s.cfg.Dir, "records", n)
	}
	return n
}

func (s *Spool) lose(records int) {
	if records > 0 {
		s.cfg.Lost(records)
	}
}

func (s *Spool) load() error {
	log, err := wal.Open(s.files(), &wal.Options{
		NoSync: s.cfg.SyncEvery > 0, SegmentSize: segmentSize, AllowEmpty: true, DirPerms: 0o750, FilePerms: 0o640,
	})
	if err != nil {
		return err
	}
	first, err := log.FirstIndex()
	if err != nil {
		return errors.Join(err, log.Close())
	}
	last, err := log.LastIndex()
	if err != nil {
		return errors.Join(err, log.Close())
	}
	size, err := sizeOf(s.files())
	if err != nil {
		return errors.Join(err, log.Close())
	}
	// What was given is in the log still, unless it is another one.
	if s.end = last + 1; s.next < first || max(s.next, s.given.to) > s.end {
		s.next, s.given = first, given{}
	}
	s.log, s.dropped = log, int64(s.next-first) // a lower bound
	s.bytes = size + int64(s.end-s.next)*frame  // an upper bound, put right as records are dropped
	return nil
}

// shut closes a log whose state in memory cannot be relied on.
func (s *Spool) shut() {
	_ = s.log.Close() // it may hold its error on
	s.log = nil
}

// setAside keeps damaged files out of the way, and begins anew.
func (s *Spool) setAside(cause error) error {
	aside := filepath.Join(s.cfg.Dir, "damaged-"+time.Now().UTC().Format("20060102T150405.000000000"))
	if err := os.Rename(s.files(), aside); err != nil {
		return fmt.Errorf("open spool %s: %w", s.cfg.Dir, errors.Join(cause, err))
	}
	s.cfg.Lost(max(1, int(s.end-s.next)))
	s.cfg.Log.Error("spool is damaged; its files are kept aside", "dir", aside, "error", cause)
	s.next, s.end, s.bytes, s.given = 0, 0, 0, given{}
	if err := s.load(); err != nil {
		return err
	}
	s.note()
	return nil
}

// repairTail cuts the last file back to whole entries, and returns how many
// bytes it has cut off. An entry is its length as a varint, and its bytes.
func repairTail(dir string) (cut int, err error) {
	names, err := segments(dir)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	path := filepath.Join(dir, names[len(names)-1])
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	whole := wholeEntries(data)
	if whole == len(data) {
		return 0, nil
	}
	return len(data) - whole, os.Truncate(path, int64(whole))
}

// wholeEntries returns how many bytes of data are whole entries with whole
// checksums. Zeros, which some file systems leave after a crash, are none.
func wholeEntries(data []byte) int {
	at := 0
	for at < len(data) {
		size, n := binary.Uvarint(data[at:])
		if n <= 0 || size < 4 || size > uint64(len(data)-at-n) {
			break
		}
		at += n + int(size)
	}
	return at
}

// segments lists the log's files in order, and removes those that a write left
// unfinished.
func segments(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasSuffix(name, ".TEMP"):
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		case len(name) >= 20:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func sizeOf(dir string) (total int64, err error) {
	names, err := segments(dir)
	for _, name := range names {
		info, statErr := os.Stat(filepath.Join(dir, name))
		if statErr != nil {
			return 0, statErr
		}
		total += info.Size()
	}
	return total, err
}
