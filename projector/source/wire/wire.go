// Package wire reads messages off a NATS connection of its own, with nothing
// between the socket and the reader: no copy, no headers taken apart, no
// allocation a message. It speaks as much of the client protocol as a reader
// of one subscription needs.
//
// Frames are the protocol's; see "NATS client protocol" in the NATS
// documentation.
package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Frame is a message. Its slices are parts of a buffer that nobody writes to
// again; holding one holds up to a slab of memory.
type Frame struct {
	Subject, Reply []byte
	Header         []byte // as sent; nil without one
	Data           []byte
	Size           int // of subject, reply, header and data, as the server counts it
}

// slab is the size of a buffer. What is smaller costs more reads, what is
// larger is held longer by a message of it.
const slab = 512 << 10

// patience bounds connecting, and writing a request.
const patience = 5 * time.Second

// ErrProtocol is the error of a connection on which something came that is no
// frame.
var ErrProtocol = errors.New("not the NATS protocol")

// Conn is a connection with one subscription. Next is for one goroutine; the
// other methods may be called beside it.
type Conn struct {
	conn   net.Conn
	buf    []byte // of which [start:end) is not yet taken apart
	start  int
	end    int
	frames []Frame

	mu  sync.Mutex // of writing
	out []byte
}

// Dial connects to the server that nc is connected to, with its credentials,
// and subscribes to a subject.
func Dial(ctx context.Context, nc *nats.Conn, subject string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := dial(ctx, nc)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	if err := c.send([]byte("SUB " + subject + " 1\r\n")); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to %s: %w", subject, err), c.Close())
	}
	return c, nil
}

// Request publishes data with a reply subject.
func (c *Conn) Request(subject, reply string, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out = append(c.out[:0], "PUB "...)
	c.out = append(c.out, subject...)
	c.out = append(append(c.out, ' '), reply...)
	c.out = strconv.AppendInt(append(c.out, ' '), int64(len(data)), 10)
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, data...)
	c.out = append(c.out, "\r\n"...)
	return c.write(c.out)
}

// Close ends the connection. A call of Next that waits returns.
func (c *Conn) Close() error { return c.conn.Close() }

func (c *Conn) send(text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(text)
}

func (c *Conn) write(text []byte) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.conn.Write(text)
	return err
}

// Next waits for messages and returns all that have come. The slice is valid
// until the next call, what it refers to for longer. An error ends the
// connection.
func (c *Conn) Next() ([]Frame, error) {
	clear(c.frames) // else they keep their slabs
	c.frames = c.frames[:0]
	for len(c.frames) == 0 {
		if err := c.fill(); err != nil {
			return nil, err
		}
		for {
			more, err := c.step()
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
		}
	}
	return c.frames, nil
}

// fill reads what there is, into a new slab when the present one is full.
func (c *Conn) fill() error {
	if len(c.buf)-c.end < slab/8 {
		c.renew(slab)
	}
	n, err := c.conn.Read(c.buf[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// renew takes a slab that has room for a frame of some size, and for what has
// been read of it.
func (c *Conn) renew(size int) {
	rest := c.buf[c.start:c.end]
	buf := make([]byte, max(slab, len(rest)+size))
	c.end = copy(buf, rest)
	c.start, c.buf = 0, buf
}
