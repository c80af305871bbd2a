package clickhouse

import (
	"bytes"

	"github.com/ClickHouse/ch-go/proto"
)

// lowCard builds a LowCardinality(String) column from byte slices without an
// allocation per row: a value is copied once per block, into the dictionary.
type lowCard struct {
	proto.ColLowCardinalityRaw
	dict proto.ColStr
	keys map[string]int
	last []byte // the value of the row before, which is often that of this one
	key  int
}

func (c *lowCard) init() {
	// Keys of 16 bits would not do: each row of a large block may have a value of its own.
	c.Index, c.Key, c.keys = &c.dict, proto.KeyUInt32, map[string]int{}
}

func (c *lowCard) append(v []byte) {
	if !bytes.Equal(v, c.last) || len(c.keys) == 0 {
		c.key = c.lookup(v)
	}
	c.AppendKey(c.key)
}

func (c *lowCard) lookup(v []byte) int {
	key, ok := c.keys[string(v)]
	if !ok {
		key = len(c.keys)
		c.keys[string(v)] = key
		c.dict.AppendBytes(v)
	}
	c.last = append(c.last[:0], v...)
	return key
}

// row returns the value of row i.
func (c *lowCard) row(i int) []byte { return c.dict.RowBytes(int(c.Keys32[i])) }

func (c *lowCard) reset() {
	c.ColLowCardinalityRaw.Reset()
	clear(c.keys)
	c.last = c.last[:0]
}

// lowCardArray builds an Array(LowCardinality(String)) column.
type lowCardArray struct {
	offsets proto.ColUInt64
	values  lowCard
	total   uint64
}

func (c *lowCardArray) append(vs [][]byte) {
	for _, v := range vs {
		c.values.append(v)
	}
	c.total += uint64(len(vs))
	c.offsets.Append(c.total)
}

// row returns the values of row i.
func (c *lowCardArray) row(i int) (vs [][]byte) {
	first := uint64(0)
	if i > 0 {
		first = c.offsets[i-1]
	}
	for k := first; k < c.offsets[i]; k++ {
		vs = append(vs, c.values.row(int(k)))
	}
	return vs
}

func (c *lowCardArray) reset() {
	c.offsets.Reset()
	c.values.reset()
	c.total = 0
}

func (c *lowCardArray) Type() proto.ColumnType      { return proto.ColumnTypeArray.Sub(c.values.Type()) }
func (c *lowCardArray) Rows() int                   { return c.offsets.Rows() }
func (c *lowCardArray) EncodeState(b *proto.Buffer) { c.values.EncodeState(b) }
func (c *lowCardArray) EncodeColumn(b *proto.Buffer) {
	c.offsets.EncodeColumn(b)
	c.values.EncodeColumn(b)
}

func (c *lowCardArray) WriteColumn(w *proto.Writer) {
	c.offsets.WriteColumn(w)
	c.values.WriteColumn(w)
}
