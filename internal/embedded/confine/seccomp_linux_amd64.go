package confine

import "golang.org/x/sys/unix"

const (
	arch         = unix.AUDIT_ARCH_X86_64
	foreignCalls = 0x40000000 // those of x32, which a filter by number would miss
)
