package child

import (
	"fmt"
	"os/exec"
	"strconv"
	"syscall"
)

// watch starts a shell that kills the process group when this process dies. It
// reads from a pipe of which this process alone holds the other end, so that
// the read returns when this process is gone, however it went. Release ends the
// shell when the group is gone.
func watch(group int) (release func(), err error) {
	shell := exec.Command("/bin/sh", "-c", "read -r _; kill -s KILL -- -"+strconv.Itoa(group))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not for Ctrl-C either
	alive, err := shell.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe to watch over process group %d: %w", group, err)
	}
	if err := shell.Start(); err != nil {
		return nil, fmt.Errorf("watch over process group %d: %w", group, err)
	}
	return func() {
		// Killed before the pipe closes: the group's number may be another's by now.
		_ = shell.Process.Kill()
		_ = shell.Wait()
		_ = alive.Close()
	}, nil
}
