package chdb

import (
	"fmt"
	"syscall"
	"unsafe"
)

// faults are the signals of faulty memory accesses and the like.
var faults = []syscall.Signal{
	syscall.SIGILL, syscall.SIGTRAP, syscall.SIGABRT, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGSEGV, syscall.SIGSYS,
}

// handler is how the kernel describes what handles a signal: four words, with some
// room.
type handler [8]uint64

// keepHandlers returns a function that gives the signals of faults back to what
// handles them now.
func keepHandlers() (restore func() error, err error) {
	kept := make([]handler, len(faults))
	for i, s := range faults {
		if err := sigaction(s, nil, &kept[i]); err != nil {
			return nil, err
		}
	}
	return func() error {
		for i, s := range faults {
			if err := sigaction(s, &kept[i], nil); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

func sigaction(s syscall.Signal, set, old *handler) error {
	const maskSize = 8
	_, _, failed := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(set)),
		uintptr(unsafe.Pointer(old)), maskSize, 0, 0)
	if failed != 0 {
		return fmt.Errorf("ask or set what handles %s: %w", s, failed)
	}
	return nil
}
