//go:build linux && (amd64 || arm64)

package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets within what a filter is given: struct seccomp_data.
const (
	atCall      = 0
	atArch      = 4
	atArguments = 16
)

const (
	refuse  = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

// forbidden are calls that no confined program makes: those that reach other
// processes, or the kernel itself, or files and sockets past Landlock and this
// filter.
var forbidden = []uint32{
	unix.SYS_CONNECT, unix.SYS_SOCKETPAIR,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP,
	unix.SYS_PIDFD_GETFD, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_KEYCTL,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG,
	unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS,
	unix.SYS_UNSHARE, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
}

// filterCalls forbids the calls for this thread and what comes of it.
func filterCalls(rules Rules) error {
	calls := forbidden
	var own []unix.SockFilter
	if len(rules.Listen) == 0 {
		calls = append(calls[:len(calls):len(calls)], unix.SYS_SOCKET, unix.SYS_BIND, unix.SYS_LISTEN)
	} else {
		// A message that names its receiver makes a connection of a new socket.
		calls = append(calls[:len(calls):len(calls)], unix.SYS_SENDMSG, unix.SYS_SENDMMSG)
		own = streamsOnly()
	}
	return install(append(append(forbid(calls), own...), withoutReceiver()...), 0)
}

// ForbidPrograms forbids this process, all of its threads, to execute programs.
// It works in a confined process alone.
func ForbidPrograms() error {
	return install(forbid([]uint32{unix.SYS_EXECVE, unix.SYS_EXECVEAT}), unix.SECCOMP_FILTER_FLAG_TSYNC)
}

// forbid begins a filter: the call's number is loaded behind it.
func forbid(calls []uint32) []unix.SockFilter {
	filter := []unix.SockFilter{
		load(atArch), equal(arch, 1, 0), answer(unknown),
		load(atCall),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: foreignCalls, Jf: 1},
		answer(unknown),
	}
	for _, call := range calls {
		filter = append(filter, equal(call, 0, 1), answer(refuse))
	}
	return filter
}

// streamsOnly leaves, of the sockets, those of TCP. Landlock knows the ports of
// no other protocol, such as MPTCP.
func streamsOnly() []unix.SockFilter {
	return []unix.SockFilter{
		equal(unix.SYS_SOCKET, 0, 12),
		load(argument(0)), equal(unix.AF_INET, 2, 0), equal(unix.AF_INET6, 1, 0), answer(refuse),
		load(argument(1)),
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf},
		equal(unix.SOCK_STREAM, 1, 0), answer(refuse),
		load(argument(2)), equal(0, 2, 0), equal(unix.IPPROTO_TCP, 1, 0), answer(refuse),
		load(atCall),
	}
}

// withoutReceiver refuses a sendto that names a receiver.
func withoutReceiver() []unix.SockFilter {
	return []unix.SockFilter{
		equal(unix.SYS_SENDTO, 0, 5),
		load(argument(4)), equal(0, 0, 2), load(argument(4) + 4), equal(0, 1, 0), answer(refuse),
	}
}

// argument is where the lower half of a call's argument is.
func argument(n uint32) uint32 { return atArguments + 8*n }

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// equal skips so many instructions where the loaded value is k, or is not.
func equal(k uint32, then, otherwise uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: then, Jf: otherwise}
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

func install(filter []unix.SockFilter, flags uintptr) error {
	filter = append(filter, answer(unix.SECCOMP_RET_ALLOW))
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("install a filter of system calls: %w", errno)
	}
	return nil
}
