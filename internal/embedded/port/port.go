// Package port finds out whether an address is free to listen on, and reserves
// free ones for tests.
package port

import (
	"net"
	"syscall"
)

// Try listens on a TCP address for a moment, and returns the address that it
// had, or why it could not. An address that is taken is syscall.EADDRINUSE.
//
// No process is forked meanwhile: one with the socket as an inheritance would
// keep the address from whoever listens on it next, until it runs its program.
func Try(address string) (net.Addr, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return l.Addr(), l.Close()
}
