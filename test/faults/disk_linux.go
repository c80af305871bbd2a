package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// envOwn says that the process has mounts of its own.
const envOwn = "MILLRACE_FAULTS_OWN_MOUNTS"

// withOwnMounts starts this program again with mounts that nobody else sees
// and that are gone when it ends, however it ends. It returns its status, or
// false when that is not allowed, or has been done.
func withOwnMounts() (status int, done bool) {
	if os.Geteuid() != 0 || os.Getenv(envOwn) != "" {
		return 0, false
	}
	// The signal at this program's end is tied to the thread that starts the other.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), envOwn+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// Unshareflags makes the new mounts private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if cmd.Start() != nil {
		return 0, false
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // an error: it has ended
		}
	}()
	_ = cmd.Wait() // the status tells
	return cmd.ProcessState.ExitCode(), true
}

// canMount tells whether small disks are to be had.
func canMount() bool { return os.Getenv(envOwn) != "" }

func (d *disk) mount(size int64, again bool) error {
	flags := uintptr(0)
	if again {
		flags = syscall.MS_REMOUNT
	}
	if err := syscall.Mount("tmpfs", d.path, "tmpfs", flags, fmt.Sprintf("size=%d,mode=711", size)); err != nil {
		return fmt.Errorf("mount a disk of %d bytes on %s: %w", size, d.path, err)
	}
	return nil
}

func unmount(path string) error {
	if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}
