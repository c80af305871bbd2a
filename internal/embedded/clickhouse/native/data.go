package native

import (
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/compress"
)

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
	}
	return b
}

// Copy reads a data packet behind its code, writes its block to dst and returns
// the packet's table name, which is empty but for external tables. A block
// without columns ends the data.
func (b *Blocks) Copy(dst io.Writer) (table string, size BlockSize, err error) {
	if table, err = b.wire.str("table name", maxName); err != nil {
		return "", size, err
	}
	if b.frames == nil {
		size, err = b.wire.CopyBlock(dst)
		return table, size, err
	}
	if size, err = b.frames.CopyBlock(dst); err != nil {
		return table, size, err
	}
	if n := b.frames.Buffered(); n != 0 {
		return table, size, fmt.Errorf("read block: %w: %d bytes behind its end", ErrProtocol, n)
	}
	return table, size, nil
}
