//go:build !linux

package confine

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// Exec executes the program without rules, which this system does not have.
func Exec(_ Rules, path string, args, env []string, _ syscall.Signal) error {
	var report Report
	report.miss("%s has neither Landlock nor seccomp", runtime.GOOS)
	if err := tell(report); err != nil {
		return err
	}
	err := syscall.Exec(path, append([]string{nameOf(path)}, args...), withoutReport(env))
	return fmt.Errorf("execute %s: %w", path, err)
}

// LeaveFirstThread has nothing to do, and no signal to return, on this system.
func LeaveFirstThread() syscall.Signal { return 0 }

// ForbidPrograms is not possible on this system.
func ForbidPrograms() error { return errors.ErrUnsupported }
