package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/klauspost/compress/zstd"
)

const (
	connectWait = 10 * time.Second
	// blockWait bounds the time between two packets of the server, which reports progress meanwhile.
	blockWait = 2 * time.Minute
)

// Save writes the rows of a part. fixed is called once, when the view of the table is fixed: rows that are written
// later are not in the part. Its error ends the copy.
func (d *Database) Save(ctx context.Context, part *Part, to io.Writer, fixed func() error) error {
	columns, err := d.columns(ctx, part.Table)
	if err != nil {
		return err
	}
	client, err := d.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	compressed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := &blockWriter{to: compressed, fixed: fixed}
	err = client.Do(ctx, ch.Query{
		Body: selection(part, columns), Result: w.results.Auto(), OnResult: w.write,
		Settings: []ch.Setting{{Key: "max_execution_time", Value: "0"}, {Key: "max_threads", Value: "2"}},
	})
	switch {
	case w.failed != nil:
		err = w.failed
	case err == nil:
		err = w.begin() // of a table without rows
	}
	if err := errors.Join(err, compressed.Close()); err != nil {
		return fmt.Errorf("copy table %s: %w", part.Table, err)
	}
	part.Rows = w.rows
	return nil
}

func selection(part *Part, columns []column) string {
	var list []string
	for _, c := range columns {
		if c.isState() {
			list = append(list, fmt.Sprintf("hex(toString(%[1]s)) AS %[1]s", quoted(c.name)))
			continue
		}
		list = append(list, quoted(c.name))
	}
	text := "SELECT " + strings.Join(list, ", ") + " FROM " + quoted(part.Table)
	if part.Where != "" {
		text += " WHERE " + part.Where
	}
	return text
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "\\`") + "`" }

// blockWriter writes blocks as the format Native has them.
type blockWriter struct {
	to      io.Writer
	results proto.Results
	buffer  proto.Buffer
	rows    int64
	fixed   func() error
	begun   bool
	failed  error // of fixed
}

func (w *blockWriter) begin() error {
	if w.begun || w.fixed == nil {
		return nil
	}
	w.begun = true
	w.failed = w.fixed()
	return w.failed
}

func (w *blockWriter) write(_ context.Context, block proto.Block) error {
	if block.Rows == 0 {
		return nil
	}
	if err := w.begin(); err != nil {
		return err
	}
	input, err := inputOf(w.results)
	if err != nil {
		return err
	}
	w.buffer.Reset()
	if err := block.EncodeRawBlock(&w.buffer, nativeFile, input); err != nil {
		return err
	}
	w.rows += int64(block.Rows)
	_, err = w.to.Write(w.buffer.Buf)
	return err
}

// nativeFile is the revision of the protocol by which files in the format Native are written.
const nativeFile = 0

// inputOf has what was read be written.
func inputOf(results proto.Results) (input proto.Input, err error) {
	for _, r := range results {
		data, ok := r.Data.(proto.ColInput)
		if !ok {
			return nil, fmt.Errorf("column %s of type %s cannot be written", r.Name, r.Data.Type())
		}
		input = append(input, proto.InputColumn{Name: r.Name, Data: data})
	}
	return input, nil
}
