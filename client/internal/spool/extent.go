package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// extent is which records waited at some time: those with indexes from next up
// to end. It is kept in a file beside the log, which does not show by itself
// that whole records are gone from its front or its end.
type extent struct{ next, end uint64 }

const extentBytes = 8 + 8 + 4 // with a checksum

func (s *Spool) extentFile() string { return filepath.Join(s.cfg.Dir, "EXTENT") }

// note writes what waits, once it is on disk. That it fails is no loss: what was
// written before says less.
func (s *Spool) note() {
	if err := s.write(false); err != nil {
		s.cfg.Log.Debug("how many records wait is not written", "dir", s.cfg.Dir, "error", err)
	}
}

// write writes what waits. Before records are removed it has to be synced, or
// they would be missed.
func (s *Spool) write(synced bool) error {
	b := binary.LittleEndian.AppendUint64(nil, s.next)
	b = binary.LittleEndian.AppendUint64(b, s.end)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, table))
	return overwrite(s.extentFile(), b, synced)
}

// overwrite has a file hold these bytes, in place: what is half written has no
// checksum, and says nothing.
func overwrite(path string, data []byte, synced bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(data, 0); err == nil && synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// noted returns what waited when it was written last; the zero value says
// nothing.
func (s *Spool) noted() (extent, error) {
	b, err := os.ReadFile(s.extentFile())
	if errors.Is(err, os.ErrNotExist) {
		return extent{}, nil
	}
	if err != nil {
		return extent{}, fmt.Errorf("open spool: %w", err)
	}
	if len(b) != extentBytes || crc32.Checksum(b[:16], table) != binary.LittleEndian.Uint32(b[16:]) {
		return extent{}, nil
	}
	return extent{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}, nil
}

// missing is how many records of an extent a log lacks that has those of
// another one.
func (e extent) missing(log extent) uint64 {
	if e.next >= e.end {
		return 0
	}
	if log.next >= e.end || log.end <= e.next { // another log, or one that begins anew
		return e.end - e.next
	}
	return max(log.next, e.next) - e.next + e.end - min(log.end, e.end)
}
