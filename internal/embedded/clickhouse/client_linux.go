package clickhouse

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hungUp tells whether a client has closed its side, whatever it has sent before.
func hungUp(client net.Conn) bool {
	if wrapped, ok := client.(interface{ NetConn() net.Conn }); ok {
		client = wrapped.NetConn()
	}
	socket, ok := client.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(polled, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil
}
