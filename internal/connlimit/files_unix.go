//go:build unix

package connlimit

import "syscall"

// Files returns how many files the process may have open.
func Files() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return fewFiles
	}
	return int(min(uint64(limit.Cur), 1<<30)) // its type differs among systems
}
