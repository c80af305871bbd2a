package clickhouse

import (
	"fmt"
	"sync"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
)

// answer is a result on its way out.
type answer struct {
	out  *native.Writer
	how  native.Compression
	done *tally

	mu                  sync.Mutex
	columns             []native.Column // of a SELECT
	begun               bool            // the client has them
	kind                native.Kind     // of the next blocks
	rows, blocks, bytes uint64
	failed              error // of the connection
	asFile              bool  // see [answer.partial]
}

// begin takes the columns of the result, which the client gets with the next chunk,
// even with one without rows. The columns of blocks can be less exact: the engine
// leaves time zones out.
func (a *answer) begin(columns []native.Column) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.columns = columns
}

// section takes what the next blocks are.
func (a *answer) section(kind native.Kind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kind = kind
}

func (a *answer) chunk(c chdb.Chunk) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.done.chunk(c)
	a.done.sent(len(c.Data))
	if a.columns != nil && !a.begun {
		if a.failed = a.out.Block(native.Rows, native.Block{Columns: a.columns}, a.how); a.failed != nil {
			return a.failed
		}
		a.begun = true
	}
	send := a.split
	if a.asFile {
		send = a.file
	}
	if err := send(c); err != nil {
		return err
	}
	if p := progress(c); p != (native.Progress{}) {
		if a.failed = a.out.Progress(p); a.failed != nil {
			return a.failed
		}
	}
	a.failed = a.out.Flush()
	return a.failed
}

// split sends the blocks of a chunk.
func (a *answer) split(c chdb.Chunk) error {
	blocks, err := native.Split(c.Data)
	if err != nil {
		return exception(codeNotImplemented, "NOT_IMPLEMENTED", "Cannot send the result: %v", err)
	}
	var rows uint64
	for _, b := range blocks {
		rows += b.Rows
		if len(a.columns) == len(b.Columns) {
			b.Columns = a.columns
		}
		if a.failed = a.out.Block(a.kind, b, a.how); a.failed != nil {
			return a.failed
		}
	}
	if len(blocks) > 0 && c.Rows != 0 && c.Rows != rows {
		return fmt.Errorf("send result: a chunk of %d rows has %d in its blocks", c.Rows, rows)
	}
	if a.kind == native.Rows {
		a.rows, a.blocks, a.bytes = a.rows+rows, a.blocks+uint64(len(blocks)), a.bytes+uint64(len(c.Data))
	}
	return nil
}

func (a *answer) end() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.out.Profile(a.rows, a.blocks, a.bytes); err != nil {
		return err
	}
	return a.out.EndOfStream()
}

func progress(c chdb.Chunk) native.Progress {
	return native.Progress{
		Rows: c.ReadRows, Bytes: c.ReadBytes, TotalRows: c.TotalRows,
		WrittenRows: c.WrittenRows, WrittenBytes: c.WrittenBytes,
	}
}
