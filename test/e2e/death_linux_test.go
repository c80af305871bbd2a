package e2e

import "syscall"

// dieWithParent has a process killed when the tests are, by their time limit.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
