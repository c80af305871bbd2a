package native

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

const (
	maxColumns = 10_000
	maxRows    = 1 << 32
)

// BlockSize is what a block holds.
type BlockSize struct{ Columns, Rows uint64 }

// CopyBlock reads a data packet's block and writes it to dst as a block of the
// Native format; one without columns, which ends the data, is not written.
// Values are not decoded: their types are followed only to find where they end.
func (r *Reader) CopyBlock(dst io.Writer) (size BlockSize, err error) {
	c := &copier{Reader: r, dst: dst}
	if err := c.blockInfo(); err != nil {
		return size, err
	}
	return c.block()
}

// BlockLen is the length and the number of rows of the first of the Native
// format's blocks in data.
func BlockLen(data []byte) (n int, rows uint64, err error) {
	var counted counter
	c := &copier{Reader: &Reader{bufio.NewReader(bytes.NewReader(data))}, dst: &counted}
	size, err := c.block()
	return int(counted), size.Rows, err
}

type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (c *copier) block() (size BlockSize, err error) {
	if size.Columns, err = c.uvarint("number of columns", maxColumns); err != nil {
		return size, err
	}
	if size.Rows, err = c.uvarint("number of rows", maxRows); err != nil || size.Columns == 0 {
		return size, err
	}
	c.scratch = binary.AppendUvarint(binary.AppendUvarint(c.scratch[:0], size.Columns), size.Rows)
	if err := c.write(c.scratch); err != nil {
		return size, err
	}
	for i := range size.Columns {
		if err := c.column(size.Rows); err != nil {
			return size, fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return size, nil
}

// copier copies what it reads to dst.
type copier struct {
	*Reader
	dst     io.Writer
	scratch []byte
}

// blockInfo skips the fields in front of a block, which files do not have.
func (c *copier) blockInfo() error {
	for {
		field, err := c.uvarint("block info", 2)
		if err != nil {
			return err
		}
		switch field {
		case 0:
			return nil
		case 1:
			err = c.skip("block info", 1)
		case 2:
			err = c.skip("block info", 4)
		}
		if err != nil {
			return err
		}
	}
}

func (c *copier) number(what string, limit uint64) (uint64, error) {
	v, err := c.uvarint(what, limit)
	if err != nil {
		return 0, err
	}
	c.scratch = binary.AppendUvarint(c.scratch[:0], v)
	return v, c.write(c.scratch)
}

func (c *copier) name(what string) (string, error) {
	s, err := c.str(what, 1<<20)
	if err != nil {
		return "", err
	}
	c.scratch = append(binary.AppendUvarint(c.scratch[:0], uint64(len(s))), s...)
	return s, c.write(c.scratch)
}

func (c *copier) write(p []byte) error {
	if _, err := c.dst.Write(p); err != nil {
		return fmt.Errorf("store block: %w", err)
	}
	return nil
}

func (c *copier) column(rows uint64) error {
	name, err := c.name("column name")
	if err != nil {
		return err
	}
	kind, err := c.name("column type")
	if err != nil {
		return err
	}
	l, err := parseType(kind, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if rows == 0 {
		return nil
	}
	if err := c.prefix(l); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := c.values(l, rows); err != nil {
		return fmt.Errorf("%s %s: %w", name, kind, err)
	}
	return nil
}

// prefix copies what stands in front of a whole column.
func (c *copier) prefix(l *layout) error {
	switch l.shape {
	case lowCar:
		if _, err := c.uint64(); err != nil {
			return err
		}
		return nil
	case object:
		version, err := c.uint64()
		if err != nil {
			return err
		}
		if version != 1 {
			return fmt.Errorf("%w: JSON is taken as text only (its serialization is %d)", ErrType, version)
		}
		return nil
	}
	for _, of := range l.of {
		if err := c.prefix(of); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) values(l *layout, rows uint64) error {
	if rows == 0 {
		return nil
	}
	switch l.shape {
	case fixed:
		return c.copyN(rows, uint64(l.size))
	case text, object:
		return c.texts(rows)
	case null:
		if err := c.copyN(rows, 1); err != nil {
			return err
		}
		return c.values(l.of[0], rows)
	case array:
		if err := c.copyN(rows-1, 8); err != nil {
			return err
		}
		total, err := c.uint64()
		if err != nil {
			return err
		}
		if total > maxRows {
			return fmt.Errorf("%w: %d elements", ErrProtocol, total)
		}
		return c.values(l.of[0], total)
	case lowCar:
		return c.lowCardinality(l.of[0], rows)
	}
	for _, of := range l.of {
		if err := c.values(of, rows); err != nil {
			return err
		}
	}
	return nil
}

// Flags of a low-cardinality column: the low byte is the width of its indexes.
const (
	additionalKeys = 1 << 9
	globalKeys     = 1 << 8
)

func (c *copier) lowCardinality(of *layout, rows uint64) error {
	flags, err := c.uint64()
	if err != nil {
		return err
	}
	width := flags & 0xff
	if width > 3 || flags&globalKeys != 0 || flags&additionalKeys == 0 {
		return fmt.Errorf("%w: low cardinality flags %x", ErrProtocol, flags)
	}
	keys, err := c.uint64()
	if err != nil {
		return err
	}
	if keys > maxRows {
		return fmt.Errorf("%w: dictionary of %d", ErrProtocol, keys)
	}
	// A nullable dictionary keeps null as its first key and has no mask.
	if of.shape == null {
		of = of.of[0]
	}
	if err := c.values(of, keys); err != nil {
		return err
	}
	indexes, err := c.uint64()
	if err != nil {
		return err
	}
	if indexes != rows {
		return fmt.Errorf("%w: %d indexes for %d rows", ErrProtocol, indexes, rows)
	}
	return c.copyN(rows, 1<<width)
}

func (c *copier) uint64() (uint64, error) {
	b, err := c.Peek(8)
	if err != nil {
		return 0, noEOF(err)
	}
	v := binary.LittleEndian.Uint64(b)
	if err := c.write(b); err != nil {
		return 0, err
	}
	_, err = c.Discard(8)
	return v, err
}

// copyN copies count values of size bytes.
func (c *copier) copyN(count, size uint64) error {
	if count > math.MaxInt64/size {
		return fmt.Errorf("%w: %d values", ErrProtocol, count)
	}
	for left := count * size; left > 0; {
		if _, err := c.Peek(1); err != nil {
			return noEOF(err)
		}
		window, _ := c.Peek(int(min(left, uint64(c.Buffered()))))
		if err := c.write(window); err != nil {
			return err
		}
		_, _ = c.Discard(len(window))
		left -= uint64(len(window))
	}
	return nil
}

// texts copies count strings, as many at once as the buffer holds.
func (c *copier) texts(count uint64) error {
	for count > 0 {
		if _, err := c.Peek(1); err != nil {
			return noEOF(err)
		}
		window, _ := c.Peek(c.Buffered())
		pos := 0
		for count > 0 {
			n, width := binary.Uvarint(window[pos:])
			if width <= 0 || n > uint64(len(window)-pos-width) {
				break
			}
			pos += width + int(n)
			count--
		}
		if pos == 0 {
			// A string that the buffer does not hold whole.
			if err := c.oneText(); err != nil {
				return err
			}
			count--
			continue
		}
		if err := c.write(window[:pos]); err != nil {
			return err
		}
		_, _ = c.Discard(pos)
	}
	return nil
}

func (c *copier) oneText() error {
	n, err := c.number("string length", 1<<40)
	if err != nil {
		return noEOF(err)
	}
	if n == 0 {
		return nil
	}
	return c.copyN(n, 1)
}
