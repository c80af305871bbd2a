package confine

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Exec applies the rules to this process and puts the program in its place. It
// returns only when it fails, and then the rules may hold already. The program
// gets the death signal of this process, as [LeaveFirstThread] has returned it.
func Exec(rules Rules, path string, args, env []string, death syscall.Signal) error {
	// What follows is of one thread, which alone goes on in the program.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var report Report
	if err := dropPrivileges(); err != nil {
		report.miss("%v", err)
	}
	restrictFiles(rules, &report)
	if err := filterCalls(rules); err != nil {
		report.miss("seccomp: %v", err)
	} else {
		report.Seccomp = true
	}
	if err := tell(report); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(death), 0, 0, 0); err != nil {
		return fmt.Errorf("ask for the signal of the parent's death: %w", err)
	}
	err := syscall.Exec(path, append([]string{nameOf(path)}, args...), withoutReport(env))
	return fmt.Errorf("execute %s: %w", path, err)
}

// death is the signal that the parent wants this process to get at its own death; 0:
// none. The kernel keeps it with the first thread alone, on which packages are initialized.
var death = deathSignal()

// LeaveFirstThread takes the first thread of this process out of use, for good,
// and returns the signal that the parent wants this process to get at its own
// death; 0: none. Libraries in a confined process run on other threads then: for the
// stack of the first one, and of no other, glibc reads /proc/self/maps, which is out
// of reach.
//
// It has to be called at the start of main, while the thread is free to run Go.
func LeaveFirstThread() syscall.Signal {
	others := make(chan struct{})
	defer close(others)
	left := make(chan bool)
	for range 64 {
		go func() {
			runtime.LockOSThread() // so that the next try gets another thread
			if unix.Gettid() == os.Getpid() {
				left <- true
				select {}
			}
			left <- false
			<-others
			runtime.UnlockOSThread()
		}()
		if <-left {
			break
		}
	}
	return death
}

func deathSignal() syscall.Signal {
	var signal int32
	if err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0); err != nil {
		return 0
	}
	return syscall.Signal(signal)
}

// restrictFiles applies Landlock.
func restrictFiles(rules Rules, report *Report) {
	abi, err := ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
		report.miss("kernel without Landlock")
		return
	case err != nil:
		report.miss("Landlock: %v", err)
		return
	case abi < 2: // renaming between folders, as engines do, would be refused
		report.miss("kernel with Landlock 1 only")
		return
	}
	all, err := grants(rules)
	if err == nil {
		err = restrictThread(abi, all, rules.Listen)
	}
	if err != nil {
		report.miss("Landlock: %v", err)
		return
	}
	report.Landlock = abi
	if abi < 3 {
		report.miss("Landlock 3: truncating files")
	}
	if abi < 4 {
		report.miss("Landlock 4: TCP ports")
	}
	if abi < 6 {
		report.miss("Landlock 6: signals to other processes")
	}
}

// loaderOf is the program that loads another one and its libraries, "" when it
// needs none.
func loaderOf(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", fmt.Errorf("read the header of %s: %w", program, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			name := make([]byte, p.Filesz)
			if _, err := p.ReadAt(name, 0); err != nil {
				return "", fmt.Errorf("read the header of %s: %w", program, err)
			}
			return strings.TrimRight(string(name), "\x00"), nil
		}
	}
	return "", nil
}

// keptCapabilities are those of root over files: folders of other users' are
// served as before. Which files that can be, Landlock says.
var keptCapabilities = map[uintptr]bool{unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true}

// dropPrivileges leaves the program none but the kept capabilities, and no way
// to more of them; and no core dumps, which would hold what is stored.
func dropPrivileges() error {
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if keptCapabilities[c] {
			continue
		}
		// EINVAL: a kernel without it; EPERM: a user without any.
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read the capabilities: %w", err)
	}
	sets[0].Inheritable, sets[1].Inheritable = 0, 0 // ambient ones go with them
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}
