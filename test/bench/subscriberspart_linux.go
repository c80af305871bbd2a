package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// receive takes what comes to all readers until ctx ends, or until they have come
// as far as they need to, if that is given. It does so in one thread and with one
// system call for each message: the clients should take as little as they can of the
// processors that the program has, too. It says once that everyone has received
// something.
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
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)}
		if err := syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, descriptors[i], &event); err != nil {
			return fmt.Errorf("watch the connections: %w", err)
		}
	}
	events, buffer, said := make([]syscall.EpollEvent, 256), make([]byte, 64<<10), false
	for ctx.Err() == nil && (need == nil || !c.has(need)) {
		n, err := syscall.EpollWait(poll, events, 100)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("watch the connections: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			i := int(e.Fd)
			n, err := syscall.Read(descriptors[i], buffer)
			if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
				continue
			}
			if n > 0 {
				err = c.take(i, buffer[:n])
			}
			if n == 0 {
				err = io.EOF
			}
			if err != nil {
				c.readers[i].lost, c.lost = true, err
				_ = c.readers[i].socket.Close()
			}
		}
		if !said && need == nil && c.begun == len(c.readers) {
			said = true
			fmt.Println("subscribed")
		}
	}
	return nil
}
