package wire

import (
	"bytes"
	"errors"
	"fmt"
)

// maxControl bounds a line of the protocol. The server's description of
// itself, which names a whole cluster, is the longest.
const maxControl = 1 << 20

// maxFrame bounds a message, far above what servers allow.
const maxFrame = 128 << 20

// step takes one frame off the buffer. It returns false when the next one is
// not whole yet.
func (c *Conn) step() (bool, error) {
	rest := c.buf[c.start:c.end]
	n := bytes.IndexByte(rest, '\n')
	if n < 0 {
		if len(rest) > maxControl {
			return false, fmt.Errorf("%w: a line of more than %d bytes", ErrProtocol, maxControl)
		}
		return false, nil
	}
	line, size := rest[:n], n+1
	if n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	switch {
	case hasPrefix(line, "MSG "):
		return c.message(line[4:], size, false)
	case hasPrefix(line, "HMSG "):
		return c.message(line[5:], size, true)
	case hasPrefix(line, "-ERR"):
		return false, fmt.Errorf("the server says: %s", bytes.Trim(line[4:], " '"))
	case hasPrefix(line, "PING"):
		if err := c.send([]byte("PONG\r\n")); err != nil {
			return false, err
		}
	case hasPrefix(line, "PONG"), hasPrefix(line, "+OK"), hasPrefix(line, "INFO "):
	default:
		return false, fmt.Errorf("%w: %.40q", ErrProtocol, line)
	}
	c.start += size
	return true, nil
}

// message takes a message off the buffer, whose first line, without the verb,
// is line and takes size bytes.
func (c *Conn) message(line []byte, size int, header bool) (bool, error) {
	f, head, total, err := parse(line, header)
	if err != nil {
		return false, err
	}
	whole := size + total + 2
	rest := c.buf[c.start:c.end]
	if len(rest) < whole {
		if missing := whole - len(rest); len(c.buf)-c.end < missing {
			c.renew(missing)
		}
		return false, nil
	}
	if string(rest[whole-2:whole]) != "\r\n" {
		return false, fmt.Errorf("%w: a message does not end where it says", ErrProtocol)
	}
	// The limits keep an append from writing into the frame behind.
	if header {
		f.Header = rest[size : size+head : size+head]
	}
	f.Data = rest[size+head : size+total : size+total]
	f.Size = len(f.Subject) + len(f.Reply) + total
	c.frames = append(c.frames, f)
	c.start += whole
	return true, nil
}

var errLine = errors.New("the first line of a message is wrong")

// parse reads "<subject> <sid> [reply] [size of header] <size>".
func parse(line []byte, header bool) (f Frame, head, total int, err error) {
	var fields [6][]byte
	n := 0
	for len(line) > 0 && n < len(fields) {
		var field []byte
		if i := bytes.IndexByte(line, ' '); i >= 0 {
			field, line = line[:i:i], line[i+1:]
		} else {
			field, line = line, nil
		}
		if len(field) > 0 {
			fields[n] = field
			n++
		}
	}
	least := 3
	if header {
		least = 4
	}
	if n < least || n > least+1 || len(line) > 0 {
		return f, 0, 0, fmt.Errorf("%w: %w: %d fields", ErrProtocol, errLine, n)
	}
	f.Subject = fields[0]
	if n > least {
		f.Reply = fields[2]
	}
	total, ok := number(fields[n-1])
	if header && ok {
		head, ok = number(fields[n-2])
	}
	if !ok || total > maxFrame || head > total {
		return f, 0, 0, fmt.Errorf("%w: %w: its sizes", ErrProtocol, errLine)
	}
	return f, head, total, nil
}

// number reads a decimal number of at most nine digits.
func number(text []byte) (n int, ok bool) {
	if len(text) == 0 || len(text) > 9 {
		return 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func hasPrefix(line []byte, prefix string) bool {
	return len(line) >= len(prefix) && string(line[:len(prefix)]) == prefix
}
