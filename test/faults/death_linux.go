package main

import "syscall"

// dieWithParent has a process killed when this one ends, however it ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
