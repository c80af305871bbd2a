package confine

import (
	"errors"
	"fmt"
	"os"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

const (
	mayRead    = ll.AccessFSReadFile | ll.AccessFSReadDir
	mayExecute = ll.AccessFSExecute | ll.AccessFSReadFile
	mayWrite   = mayRead | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg | ll.AccessFSMakeSym | ll.AccessFSMakeFifo | ll.AccessFSRefer
	ofFiles = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSExecute
)

// libraries are where the loader of programs looks.
var libraries = []string{"/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache"}

// grant is what a file, or a folder with all below it, may be used for. One that
// does not exist is passed over.
type grant struct {
	path   string
	rights uint64
}

// grants are the rules as Landlock has them.
func grants(rules Rules) (all []grant, err error) {
	for _, program := range rules.Programs {
		all = append(all, grant{program, mayExecute})
		loader, err := loaderOf(program)
		if err != nil {
			return nil, err
		}
		if loader != "" {
			all = append(all, grant{loader, mayExecute})
		}
	}
	for _, path := range append(rules.Read, libraries...) {
		all = append(all, grant{path, mayRead})
	}
	for _, path := range rules.Write {
		all = append(all, grant{path, mayWrite})
	}
	for _, path := range []string{"/dev/null", "/dev/zero"} {
		all = append(all, grant{path, ll.AccessFSReadFile | ll.AccessFSWriteFile})
	}
	for _, path := range []string{"/dev/random", "/dev/urandom"} {
		all = append(all, grant{path, mayRead})
	}
	return all, nil
}

// restrictThread applies Landlock, of a version that the kernel has, to the
// calling thread. The library's way restricts all threads, which the Go runtime
// refuses in programs without cgo that load C libraries, such as this one; and the
// calling thread alone goes on in the program that is executed.
func restrictThread(abi int, all []grant, listen []uint16) error {
	rules := restrictions(abi)
	set, err := ll.LandlockCreateRuleset(&rules, 0)
	if err != nil {
		return fmt.Errorf("make a rule set: %w", err)
	}
	defer unix.Close(set)
	for _, g := range all {
		if err := g.add(set, rules.HandledAccessFS); err != nil {
			return err
		}
	}
	for _, port := range listen {
		if rules.HandledAccessNet == 0 {
			break
		}
		attr := ll.NetPortAttr{AllowedAccess: ll.AccessNetBindTCP, Port: uint64(port)}
		if err := ll.LandlockAddNetPortRule(set, &attr, 0); err != nil {
			return fmt.Errorf("allow port %d: %w", port, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := ll.LandlockRestrictSelf(set, 0); err != nil {
		return fmt.Errorf("restrict: %w", err)
	}
	return nil
}

// restrictions are all that a version of Landlock can refuse, as its
// documentation in the kernel has it, up to version 6.
func restrictions(abi int) (rules ll.RulesetAttr) {
	rules.HandledAccessFS = ll.AccessFSIoctlDev<<1 - 1
	switch {
	case abi < 2:
		rules.HandledAccessFS = ll.AccessFSRefer - 1
	case abi < 3:
		rules.HandledAccessFS = ll.AccessFSTruncate - 1
	case abi < 5:
		rules.HandledAccessFS = ll.AccessFSIoctlDev - 1
	}
	if abi >= 4 {
		rules.HandledAccessNet = ll.AccessNetBindTCP | ll.AccessNetConnectTCP
	}
	if abi >= 6 {
		rules.Scoped = ll.ScopeAbstractUnixSocket | ll.ScopeSignal
	}
	return rules
}

// add grants the rights of a folder, or those of them that a file can have.
func (g grant) add(set int, handled uint64) error {
	file, err := unix.Open(g.path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("allow %s: %w", g.path, err)
	}
	defer unix.Close(file)
	rights := g.rights
	if info, err := os.Stat(g.path); err == nil && !info.IsDir() {
		rights &= ofFiles
	}
	attr := ll.PathBeneathAttr{ParentFd: file, AllowedAccess: rights & handled}
	if err := ll.LandlockAddPathBeneathRule(set, &attr, 0); err != nil {
		return fmt.Errorf("allow %s: %w", g.path, err)
	}
	return nil
}
