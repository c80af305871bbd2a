package clickhouse

import (
	"encoding/binary"
	"slices"

	"github.com/ClickHouse/ch-go/proto"
)

// texts is a String column in the form in which it is sent, each value behind its
// length: an insert takes no copy of it.
type texts struct {
	buf  []byte
	rows []textRow
}

// textRow is where a value begins and ends, which is within 4 GiB.
type textRow struct{ from, to uint32 }

func (c *texts) append(v []byte) {
	c.buf = binary.AppendUvarint(c.buf, uint64(len(v)))
	from := len(c.buf)
	c.buf = append(c.buf, v...)
	c.rows = append(c.rows, textRow{uint32(from), uint32(len(c.buf))})
}

// grow makes room for as many values of a size.
func (c *texts) grow(rows, size int) {
	c.rows = slices.Grow(c.rows, rows)
	c.buf = slices.Grow(c.buf, rows*(size+1))
}

// row returns the value of row i.
func (c *texts) row(i int) []byte { return c.buf[c.rows[i].from:c.rows[i].to] }

// Type implements proto.ColInput, as the methods below do.
func (*texts) Type() proto.ColumnType { return proto.ColumnTypeString }

func (c *texts) Rows() int { return len(c.rows) }

func (c *texts) EncodeColumn(b *proto.Buffer) { b.PutRaw(c.buf) }

func (c *texts) WriteColumn(w *proto.Writer) { w.ChainWrite(c.buf) }

// Reset implements proto.Resettable.
func (c *texts) Reset() { c.buf, c.rows = c.buf[:0], c.rows[:0] }
