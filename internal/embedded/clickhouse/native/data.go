package native

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/compress"
)

// SkipEmpty reads a data packet behind its code whose block has to be the empty
// one, which follows a query that brings no external tables. It unpacks nothing.
func (r *Reader) SkipEmpty(compressed bool) error {
	table, err := r.str("table name", maxName)
	if err != nil {
		return err
	}
	if table != "" {
		return fmt.Errorf("%w: external tables are not supported", ErrProtocol)
	}
	if compressed {
		return r.skipFrame()
	}
	c := &copier{Reader: r, dst: io.Discard}
	if err := c.blockInfo(); err != nil {
		return err
	}
	for _, what := range []string{"number of columns", "number of rows"} {
		if _, err := r.uvarint(what, 0); err != nil {
			return err
		}
	}
	return nil
}

// skipFrame skips a compressed frame: a checksum of 16 bytes, then a method, the
// size of the rest with these fields, and that of what is in it.
func (r *Reader) skipFrame() error {
	head, err := r.Peek(16 + 1 + 4 + 4)
	if err != nil {
		return fmt.Errorf("read block: %w", noEOF(err))
	}
	size := binary.LittleEndian.Uint32(head[17:])
	if size > maxEmpty {
		return fmt.Errorf("read block: %w: a compressed one of %d bytes is not empty", ErrProtocol, size)
	}
	return r.skip("block", 16+int(size))
}

// Blocks reads the blocks of a query's data packets.
type Blocks struct {
	wire   *Reader
	frames *Reader // nil when blocks are not compressed
}

// Compressed tells whether the blocks travel compressed.
func (b *Blocks) Compressed() bool { return b.frames != nil }

// NewBlocks returns a reader of blocks from r.
func NewBlocks(r *Reader, compressed bool) *Blocks {
	b := &Blocks{wire: r}
	if compressed {
		b.frames = NewReader(compress.NewReader(r))
		b.frames.revision = r.revision
	}
	return b
}

// Table reads the first part of a data packet behind its code: the name of the
// table that its block belongs to, which is empty but for external tables.
func (b *Blocks) Table() (string, error) { return b.wire.str("table name", maxName) }

// Copy reads the rest of a data packet and writes its block to dst. A block
// without columns ends the data.
func (b *Blocks) Copy(dst io.Writer) (size BlockSize, err error) {
	if b.frames == nil {
		return b.wire.CopyBlock(dst)
	}
	if size, err = b.frames.CopyBlock(dst); err != nil {
		return size, err
	}
	if n := b.frames.Buffered(); n != 0 {
		return size, fmt.Errorf("read block: %w: %d bytes behind its end", ErrProtocol, n)
	}
	return size, nil
}
