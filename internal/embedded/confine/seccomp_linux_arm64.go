package confine

import "golang.org/x/sys/unix"

const (
	arch         = unix.AUDIT_ARCH_AARCH64
	foreignCalls = 1<<32 - 1 // none
)
