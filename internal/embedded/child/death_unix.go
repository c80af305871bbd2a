//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// bind does nothing here: these systems have no signal for a parent's death.
func bind(*syscall.SysProcAttr, syscall.Signal) {}

func launch(cmd *exec.Cmd) (release func(), err error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	release, err = watch(cmd.Process.Pid)
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		return nil, err
	}
	return release, nil
}
