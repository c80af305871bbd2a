package clickhouse

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// errRefused is an exception that was sent; the connection goes on.
var errRefused = errors.New("refused")

// query reads and answers a query packet. An error ends the connection.
func (c *conn) query(ctx context.Context) error {
	packet, blocks, err := c.readQuery()
	if errors.Is(err, native.ErrProtocol) {
		// What follows cannot be told apart any more.
		return errors.Join(err, c.exception(exception(codeIncorrectData, "INCORRECT_DATA", "Cannot read the query: %v", err)))
	}
	if err != nil {
		return err
	}
	if blocks != nil {
		external, err := c.skipExternal(blocks)
		if err != nil {
			return err
		}
		if external {
			return c.exception(exception(codeNotImplemented, "NOT_IMPLEMENTED", "External tables are not supported"))
		}
	}
	q := query{format: "Native", settings: settings{}}
	for _, s := range packet.Settings {
		q.settings[s.Name] = s.Value
	}
	if q.Statement, err = statement.Parse(packet.Text); err != nil {
		return c.exception(err)
	}
	if q.Insert != nil && !c.sess.writes() {
		return c.exception(errReadOnly())
	}
	if q.Insert != nil {
		return c.insert(ctx, q, blocks)
	}
	return c.answer(ctx, q, packet.Compressed)
}

// readQuery reads a query packet, and of one who may write no more. Analysts have
// a time and a size for it, and no blocks: they must not hold memory by what they
// announce, or begin and never end.
func (c *conn) readQuery() (packet native.Query, blocks *native.Blocks, err error) {
	if c.sess.writes() {
		packet, err = c.in.ReadQuery(maxQuery)
		return packet, native.NewBlocks(c.in, packet.Compressed), err
	}
	if err := c.net.SetReadDeadline(time.Now().Add(bodyTime)); err != nil {
		return packet, nil, fmt.Errorf("set deadline: %w", err)
	}
	if packet, err = c.in.ReadQuery(maxRead); err != nil {
		return packet, nil, err
	}
	code, err := c.in.Packet()
	if err == nil && code != native.ClientData {
		err = fmt.Errorf("%w: packet %d behind a query", native.ErrProtocol, code)
	}
	if err == nil {
		err = c.in.SkipEmpty(packet.Compressed)
	}
	if err != nil {
		return packet, nil, err
	}
	return packet, nil, c.net.SetReadDeadline(time.Time{})
}

// skipExternal reads the blocks between a query and its empty block.
func (c *conn) skipExternal(blocks *native.Blocks) (any bool, err error) {
	for {
		code, err := c.in.Packet()
		if err != nil {
			return any, fmt.Errorf("read external tables: %w", err)
		}
		if code != native.ClientData {
			return any, fmt.Errorf("read external tables: %w: packet %d", native.ErrProtocol, code)
		}
		table, size, err := blocks.Copy(io.Discard)
		if err != nil {
			return any, err
		}
		if table == "" && size.Columns == 0 {
			return any, nil
		}
		any = true
	}
}

// answer runs q and sends its result block by block.
func (c *conn) answer(ctx context.Context, q query, compressed bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &answer{out: c.out, how: compression(compressed, q.settings)}
	delete(q.settings, "network_compression_method")
	stop := c.watch(cancel)
	err := c.sess.run(ctx, q, a.chunk)
	cancelled, lost := stop()
	switch {
	case lost != nil:
		return lost
	case a.failed != nil:
		return a.failed
	case cancelled:
		return c.out.EndOfStream()
	case err != nil:
		return c.exception(err)
	}
	if a.blocks == 0 && q.Verb == "SELECT" {
		if err := c.emptyResult(ctx, q, a); err != nil {
			return c.exception(err)
		}
	}
	return a.end()
}

// emptyResult sends the header of a result without rows: the engine has none.
func (c *conn) emptyResult(ctx context.Context, q query, a *answer) error {
	columns, err := describe(ctx, c.sess, "DESCRIBE TABLE ("+q.Text+"\n)")
	if err != nil {
		return err
	}
	var header []native.Column
	for _, col := range columns {
		header = append(header, col.Column)
	}
	return c.out.Block(native.Header(header), a.how)
}

func compression(on bool, set settings) native.Compression {
	switch {
	case !on:
		return native.Plain
	case set["network_compression_method"] == "ZSTD" || set["network_compression_method"] == "zstd":
		return native.ZSTD
	}
	return native.LZ4
}

// answer is a result on its way out.
type answer struct {
	out                 *native.Writer
	how                 native.Compression
	rows, blocks, bytes uint64
	failed              error // of the connection
}

func (a *answer) chunk(c chdb.Chunk) error {
	if len(c.Data) == 0 {
		return nil
	}
	if rows, ok := blockRows(c.Data); !ok || c.Rows != 0 && rows != c.Rows {
		return a.split(c)
	}
	a.failed = a.block(c.Data, c.Rows)
	if a.failed == nil {
		a.failed = a.out.Progress(progress(c))
	}
	if a.failed == nil {
		a.failed = a.out.Flush()
	}
	return a.failed
}

func (a *answer) block(data []byte, rows uint64) error {
	a.rows, a.blocks, a.bytes = a.rows+rows, a.blocks+1, a.bytes+uint64(len(data))
	return a.out.Block(data, a.how)
}

// split sends a chunk of several blocks.
func (a *answer) split(c chdb.Chunk) error {
	for data := c.Data; len(data) > 0; {
		n, rows, err := native.BlockLen(data)
		if err != nil {
			return fmt.Errorf("split result: %w", err)
		}
		if a.failed = a.block(data[:n], rows); a.failed != nil {
			return a.failed
		}
		data = data[n:]
	}
	a.failed = a.out.Progress(progress(c))
	return a.failed
}

func (a *answer) end() error {
	if err := a.out.Profile(a.rows, a.blocks, a.bytes); err != nil {
		return err
	}
	return a.out.EndOfStream()
}

func progress(c chdb.Chunk) native.Progress {
	return native.Progress{Rows: c.ReadRows, Bytes: c.ReadBytes, WrittenRows: c.WrittenRows, WrittenBytes: c.WrittenBytes}
}

// blockRows is the number of rows of the first block in data.
func blockRows(data []byte) (uint64, bool) {
	_, n := binary.Uvarint(data)
	if n <= 0 {
		return 0, false
	}
	rows, m := binary.Uvarint(data[n:])
	return rows, m > 0
}

// insert takes an INSERT's rows, from the client's blocks or from the text.
func (c *conn) insert(ctx context.Context, q query, blocks *native.Blocks) error {
	rows, err := newSpool(c.server.engine.spoolDir())
	if err != nil {
		return c.exception(err)
	}
	defer rows.close()
	format := q.Insert.Format
	if q.Insert.Inline != "" {
		if _, err := rows.Write([]byte(q.Insert.Inline)); err != nil {
			return c.exception(err)
		}
	} else {
		format = "Native"
		err := c.receive(ctx, q, blocks, rows)
		if errors.Is(err, errRefused) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return c.store(ctx, q, rows, format)
}

// receive sends an insert's header and reads its blocks into rows.
func (c *conn) receive(ctx context.Context, q query, blocks *native.Blocks, rows *spool) error {
	columns, err := insertColumns(ctx, c.sess, q.Insert)
	if err != nil {
		return errors.Join(errRefused, c.exception(err))
	}
	if err := c.out.Block(native.Header(columns), compression(blocks.Compressed(), q.settings)); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	for {
		code, err := c.in.Packet()
		switch {
		case err != nil:
			return fmt.Errorf("read rows: %w", err)
		case code == native.ClientCancel:
			return errors.Join(errRefused, c.out.EndOfStream())
		case code != native.ClientData:
			return fmt.Errorf("read rows: %w: packet %d", native.ErrProtocol, code)
		}
		_, size, err := blocks.Copy(rows)
		if err != nil {
			// What follows cannot be told apart any more.
			return errors.Join(err, c.exception(exception(codeNotImplemented, "NOT_IMPLEMENTED", "Cannot read block: %v", err)))
		}
		if size.Columns == 0 {
			return nil
		}
	}
}

// store has the engine insert rows.
func (c *conn) store(ctx context.Context, q query, rows *spool, format string) error {
	set := q.settings
	delete(set, "network_compression_method")
	a := &answer{out: c.out}
	if rows.size > 0 {
		insert, err := insertFile(q.Insert, rows.path(), format, set)
		if err == nil {
			err = c.sess.run(ctx, query{Statement: insert, format: "Null"}, func(chunk chdb.Chunk) error {
				a.failed = c.out.Progress(progress(chunk))
				return a.failed
			})
		}
		if a.failed != nil {
			return a.failed
		}
		if err != nil {
			return c.exception(err)
		}
	}
	return c.out.EndOfStream()
}
