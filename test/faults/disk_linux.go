package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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

// canMount tells whether disks are to be had.
func canMount() bool {
	if os.Getenv(envOwn) == "" {
		return false
	}
	_, noMaker := exec.LookPath("mkfs.ext4")
	_, noLoops := os.Stat("/dev/loop-control")
	return noMaker == nil && noLoops == nil
}

// newDisk mounts an empty one on a folder, which it makes. It takes memory for
// what is on it, and none before.
func newDisk(path string, size int64) (*disk, error) {
	if err := os.MkdirAll(path, 0o711); err != nil {
		return nil, err
	}
	device, err := attach(size)
	if err != nil {
		return nil, fmt.Errorf("make a disk of %d bytes: %w", size, err)
	}
	d := &disk{path: path, device: device}
	if out, err := exec.Command("mkfs.ext4", "-q", "-m", "0", device.Name()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mkfs.ext4: %w: %s", err, out)
	}
	if err := d.mount(); err != nil {
		return nil, err
	}
	return d, errors.Join(os.Chmod(path, 0o711), os.Remove(filepath.Join(path, "lost+found")))
}

// attach makes a block device in memory, which is gone with its last user.
func attach(size int64) (*os.File, error) {
	memory, err := unix.MemfdCreate("disk", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(memory) // the device keeps it
	if err := unix.Ftruncate(memory, size); err != nil {
		return nil, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range 100 { // somebody else may take the free one first
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, err
		}
		device, err := os.OpenFile(fmt.Sprint("/dev/loop", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(memory), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err = unix.IoctlLoopConfigure(int(device.Fd()), &config); err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, errors.New("no loop device is free")
}

func (d *disk) mount() error {
	if err := unix.Mount(d.device.Name(), d.path, "ext4", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount a disk on %s: %w", d.path, err)
	}
	return nil
}

// cutPower stops the file system at once: what is not synced is forgotten, and
// nothing is read or written before it is started again. It is the call by
// which the authors of ext4 test its journal.
func (d *disk) cutPower() error {
	const (
		shutdown    = 0x8004587D // EXT4_IOC_SHUTDOWN
		withoutSync = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	root, err := os.Open(d.path)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unix.IoctlSetPointerInt(int(root.Fd()), shutdown, withoutSync); err != nil {
		return fmt.Errorf("cut the power of %s: %w", d.path, err)
	}
	return nil
}

// restart mounts a disk again whose power was cut, when nobody uses it any
// more.
func (d *disk) restart() error {
	if err := unmount(d.path, true); err != nil {
		return err
	}
	return d.mount()
}

// unmount waits, if asked, until the folder is not in use.
func unmount(path string, wait bool) error {
	flags := unix.MNT_DETACH
	if wait {
		flags = 0
	}
	var err error
	for range 500 {
		if err = unix.Unmount(path, flags); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	return nil
}

func allocate(f *os.File, from, size int64) error {
	if size <= 0 {
		return nil
	}
	return unix.Fallocate(int(f.Fd()), 0, from, size)
}
