package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// rest is between two looks at the connections. Whoever sends to a client that sleeps
// pays for waking it, which on a machine of their own clients would not do to the
// server. What rests here is received as much later.
const rest = 2 * time.Millisecond

// receive takes what comes to all readers until ctx ends, or until they have come
// as far as they need to, if that is given. It does so in one thread, with one
// system call for each message and without being woken for each: the clients should
// take as little as they can of the processors that the program has, too. It says once
// that everyone has received something.
func (c *subscribers) receive(ctx context.Context, need []uint64) error {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("watch the connections: %w", err)
	}
	defer syscall.Close(poll)
	descriptors := make([]int, len(c.readers))
	for i, r := range c.readers {
		if r.lost {
			continue
		}
		descriptors[i] = int(r.socket.Fd())
		if err := syscall.SetNonblock(descriptors[i], true); err != nil {
			return fmt.Errorf("watch the connections: %w", err)
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN | -syscall.EPOLLET, Fd: int32(i)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, descriptors[i], &event); err != nil {
			return fmt.Errorf("watch the connections: %w", err)
		}
	}
	events, buffer, said := make([]syscall.EpollEvent, 1024), make([]byte, 64<<10), false
	for ctx.Err() == nil && (need == nil || !c.has(need)) {
		n, err := syscall.EpollWait(poll, events, 0)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("watch the connections: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			if err := c.drain(int(e.Fd), descriptors[e.Fd], buffer); err != nil {
				r := c.readers[e.Fd]
				r.lost, c.lost = true, err
				_ = r.socket.Close()
			}
		}
		if !said && need == nil && c.begun == len(c.readers) {
			said = true
			fmt.Println("subscribed")
		}
		if n < len(events) {
			time.Sleep(rest)
		}
	}
	return nil
}

// drain takes all that has come to a reader.
func (c *subscribers) drain(i, descriptor int, buffer []byte) error {
	for {
		n, err := syscall.Read(descriptor, buffer)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return nil
		case err != nil:
			return err
		case n == 0:
			return io.EOF
		}
		if err := c.take(i, buffer[:n]); err != nil || n < len(buffer) {
			return err
		}
	}
}

// unwatchedCopy returns a copy of a connection that is not in Go's poller, which would
// be woken for each message.
func unwatchedCopy(conn *net.TCPConn) (*os.File, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("copy a connection: %w", err)
	}
	var f *os.File
	failed := raw.Control(func(fd uintptr) {
		var duplicate int
		if duplicate, err = syscall.Dup(int(fd)); err == nil {
			err = syscall.SetNonblock(duplicate, false) // os.NewFile watches what does not block
		}
		f = os.NewFile(uintptr(duplicate), "WebSocket")
	})
	return f, errors.Join(failed, err)
}
