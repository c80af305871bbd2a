package clickhouse

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"sync/atomic"
)

// How much of an insert, and of all of them, is held in memory.
const (
	spoolMemory  = 64 << 20
	spoolsMemory = 256 << 20
)

// spool takes an insert's rows and hands them to the engine as a file: an
// unnamed one in memory, and in the data folder what is too large for that.
type spool struct {
	file     *os.File
	dir      string
	size     int64
	inMemory bool
	all      *atomic.Int64 // bytes of all spools that are in memory
}

func newSpool(dir string, all *atomic.Int64) (*spool, error) {
	s := &spool{dir: dir, all: all}
	file, err := memoryFile()
	if err == nil {
		s.file, s.inMemory = file, true
		return s, nil
	}
	return s, s.toDisk()
}

func (s *spool) toDisk() error {
	file, err := os.CreateTemp(s.dir, "insert-*")
	if err != nil {
		return fmt.Errorf("make spool file: %w", err)
	}
	if s.file != nil {
		if err := moveFile(s.file, file); err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
			return err
		}
	}
	if s.inMemory {
		s.all.Add(-s.size)
	}
	s.file, s.inMemory = file, false
	return nil
}

func moveFile(from, to *os.File) error {
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind spool: %w", err)
	}
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("move spool to disk: %w", err)
	}
	return from.Close()
}

func (s *spool) Write(p []byte) (int, error) {
	if more := int64(len(p)); s.inMemory && (s.size+more > spoolMemory || s.all.Load()+more > spoolsMemory) {
		if err := s.toDisk(); err != nil {
			return 0, err
		}
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	if s.inMemory {
		s.all.Add(int64(n))
	}
	return n, err
}

// rewind returns the rows from their beginning.
func (s *spool) rewind() (io.Reader, error) {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("rewind spool: %w", err)
	}
	return s.file, nil
}

// path is where the engine, which is in this process, finds the rows.
func (s *spool) path() string {
	if s.inMemory {
		return "/proc/self/fd/" + strconv.Itoa(int(s.file.Fd()))
	}
	return s.file.Name()
}

// discard closes the spool of an insert that has ended with err. The engine may
// still open one that it was left behind with.
func (e *engine) discard(s *spool, err error) {
	if isStuck(err) {
		e.keep(s)
		return
	}
	s.close()
}

func (s *spool) close() {
	if s.file == nil {
		return
	}
	_ = s.file.Close()
	if s.inMemory {
		s.all.Add(-s.size)
	} else {
		_ = os.Remove(s.file.Name())
	}
	s.file = nil
}
