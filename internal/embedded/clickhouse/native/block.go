package native

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

const (
	maxColumns = 10_000
	maxRows    = 1 << 32
	maxText    = 1 << 20 // of a name or a type
)

// BlockSize is what a block holds.
type BlockSize struct {
	Columns, Rows uint64
	Head          []Column
}

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
		col, err := c.head(i)
		if err == nil {
			err = c.data(col, size.Rows)
		}
		if err != nil {
			return size, fmt.Errorf("column %d: %w", i+1, err)
		}
		size.Head = append(size.Head, col)
	}
	return size, nil
}

// copier copies what it reads to dst.
type copier struct {
	*Reader
	dst     io.Writer
	marks   bool     // columns in dst are marked as laid out as their types say
	exact   []Column // the columns in dst, where their types are more exact than those read
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
	s, err := c.str(what, maxText)
	if err != nil {
		return "", err
	}
	return s, c.text(s)
}

func (c *copier) text(s string) error {
	c.scratch = append(binary.AppendUvarint(c.scratch[:0], uint64(len(s))), s...)
	return c.write(c.scratch)
}

func (c *copier) write(p []byte) error {
	if _, err := c.dst.Write(p); err != nil {
		return fmt.Errorf("store block: %w", err)
	}
	return nil
}

// head copies what stands in front of the data of the column at i.
func (c *copier) head(i uint64) (col Column, err error) {
	if col.Name, err = c.name("column name"); err != nil {
		return col, err
	}
	if col.Type, err = c.str("column type", maxText); err != nil {
		return col, err
	}
	kind := col.Type
	if i < uint64(len(c.exact)) {
		kind = c.exact[i].Type
	}
	if err := c.text(kind); err != nil {
		return col, err
	}
	if c.marks {
		if err := c.write([]byte{0}); err != nil {
			return col, err
		}
	}
	if err := c.flag(); err != nil {
		return col, fmt.Errorf("%s: %w", col.Name, err)
	}
	return col, nil
}

func (c *copier) data(col Column, rows uint64) error {
	l, err := parseType(col.Type, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", col.Name, err)
	}
	if rows == 0 {
		return nil
	}
	if err := c.prefix(l); err != nil {
		return fmt.Errorf("%s %s: %w", col.Name, col.Type, err)
	}
	if err := c.values(l, rows); err != nil {
		return fmt.Errorf("%s %s: %w", col.Name, col.Type, err)
	}
	return nil
}

// flag skips what says how a column is written, which files do not have.
func (c *copier) flag() error {
	if c.revision < revisionFlags {
		return nil
	}
	custom, err := c.byte("column's serialization")
	if err == nil && custom != 0 {
		err = fmt.Errorf("%w: a column in a serialization of its own, such as sparse", ErrType)
	}
	return err
}

// prefix copies what stands in front of a whole column.
func (c *copier) prefix(l *layout) error {
	switch l.shape {
	case lowCar:
		if _, err := c.uint64(); err != nil {
			return err
		}
		return nil
	case dynamic:
		return c.dynamicPrefix(l)
	case object:
		return c.objectPrefix(l)
	case variant:
		if err := c.variantPrefix(); err != nil {
			return err
		}
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
	case text:
		return c.texts(rows)
	case object:
		return c.objects(l, rows)
	case variant, dynamic:
		return c.variants(l, rows)
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
