package main

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"time"
)

// follow has the clocks of all that a process has started, and of what those
// have, be ahead. What has ended meanwhile is passed over, and so is what has
// yet to run its program: it is met again.
func follow(pid int, ahead time.Duration) error {
	heirs, err := descendants(pid)
	for _, heir := range append(heirs, pid) { // which may have executed another program
		if e := bequeath(heir, ahead); !gone(e) && !slices.ContainsFunc(ended,
			func(is error) bool { return errors.Is(e, is) }) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// ended are errors of the files and the memory of a process that has ended:
// io.EOF of reading it, io.ErrUnexpectedEOF of writing. EIO is that of one which has
// executed another program since it was asked where the vDSO lies.
var ended = []error{fs.ErrNotExist, io.EOF, io.ErrUnexpectedEOF, syscall.EIO, errNoVDSO}

func bequeath(pid int, ahead time.Duration) error {
	memory, where, err := install(pid, byEntry)
	if err != nil {
		return err
	}
	defer memory.Close()
	seconds := make([]byte, 8)
	if _, err := memory.ReadAt(seconds, where); err != nil {
		return err
	}
	if want := uint64(ahead / time.Second); binary.LittleEndian.Uint64(seconds) != want {
		binary.LittleEndian.PutUint64(seconds, want)
		_, err = memory.WriteAt(seconds, where)
	}
	return err
}
