package native

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Column is a column's name and type.
type Column struct{ Name, Type string }

// Block is a block to send: its columns, and the data of each as they stand in a
// file of the Native format. A block without rows has no data.
type Block struct {
	Columns []Column
	Rows    uint64
	data    [][]byte
}

// ErrPlace is a column whose end is not known here, such as one of states of an
// aggregate function, with another column behind it.
var ErrPlace = errors.New("data of this type can be sent in the last column only; " +
	"states of aggregate functions can be sent as finalizeAggregation(…) or hex(…)")

// Split finds the blocks of the Native format in data, which they share.
func Split(data []byte) (blocks []Block, err error) {
	src := bytes.NewReader(data)
	c := &copier{Reader: &Reader{Reader: bufio.NewReaderSize(src, min(len(data), 64<<10))}, dst: io.Discard}
	at := func() int { return len(data) - src.Len() - c.Buffered() }
	for at() < len(data) {
		b := Block{}
		columns, err := c.uvarint("number of columns", maxColumns)
		if err != nil {
			return nil, err
		}
		if b.Rows, err = c.uvarint("number of rows", maxRows); err != nil {
			return nil, err
		}
		for range columns {
			col, err := c.head(uint64(len(b.Columns)))
			if err != nil {
				return nil, err
			}
			start := at()
			err = c.data(col, b.Rows)
			end := at()
			if errors.Is(err, ErrType) {
				if len(b.Columns)+1 < int(columns) {
					return nil, fmt.Errorf("column %s %s: %w", col.Name, col.Type, ErrPlace)
				}
				_, err = c.Discard(len(data) - end)
				end = len(data)
			}
			if err != nil {
				return nil, err
			}
			b.Columns, b.data = append(b.Columns, col), append(b.data, data[start:end])
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}
