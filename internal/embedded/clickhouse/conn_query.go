package clickhouse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// nativeProgress is how often a client hears what its statement has done.
const nativeProgress = 200 * time.Millisecond

// errRefused is an exception that was sent; the connection goes on.
var errRefused = errors.New("refused")

// query reads and answers a query packet, within the time of a statement. An
// error ends the connection.
func (c *conn) query(ctx context.Context) (err error) {
	c.hurry = c.to.begin()
	ctx, cancel := context.WithTimeoutCause(ctx, c.server.cfg.MaxTime, errTimeLimit)
	defer cancel()
	defer func() { _ = c.net.SetReadDeadline(time.Time{}) }() // idle connections may stay
	packet, blocks, err := c.readQuery(ctx)
	if err != nil {
		return err
	}
	c.received()
	tables, err := c.receiveTables(blocks)
	defer func() { tables.discard(c.server.engine, err) }()
	if err != nil {
		return err
	}
	q := query{format: "Native", settings: settings{}, id: cmp.Or(packet.ID, newID())}
	for _, s := range packet.Settings {
		q.settings[s.Name] = s.Value
	}
	for _, p := range packet.Params {
		q.params = append(q.params, chdb.Param{Name: p.Name, Value: p.Value})
	}
	if q.Statement, err = statement.Parse(packet.Text); err != nil {
		return c.exception(err)
	}
	c.done = &tally{}
	c.entry = c.server.engine.queryLog.begin(asked{
		Statement: q.Statement, from: c.from, id: q.id, settings: q.settings, over: overNative, client: packet.Client,
	}, c.done)
	defer func() {
		c.entry.end(err)
		c.entry = nil
	}()
	if q.Insert != nil && !c.sess.writes() {
		return c.exception(errReadOnly())
	}
	drop, err := tables.attach(ctx, c.sess)
	if isStuck(err) {
		return err
	}
	if err != nil {
		return c.exception(err)
	}
	defer func() { drop(err) }()
	if q.Insert != nil {
		return c.insert(ctx, q, blocks)
	}
	return c.answer(ctx, q, packet)
}

// readQuery reads a query packet, and of one who may write no more. Analysts have
// a time and a size for it, and no blocks: they must not hold memory by what they
// announce, or begin and never end.
func (c *conn) readQuery(ctx context.Context) (packet native.Query, blocks *native.Blocks, err error) {
	if c.sess.writes() {
		if err := c.readUntil(ctx); err != nil {
			return packet, nil, err
		}
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
		err = errPacket(code)
	}
	if err == nil {
		err = c.in.SkipEmpty(packet.Compressed)
	}
	if err != nil {
		return packet, nil, err
	}
	return packet, nil, c.net.SetReadDeadline(time.Time{})
}

// readUntil bounds reading by the deadline of a statement.
func (c *conn) readUntil(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	if err := c.net.SetReadDeadline(deadline); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	return nil
}

// answer runs q and sends its result block by block.
func (c *conn) answer(ctx context.Context, q query, packet native.Query) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &answer{out: c.out, how: compression(packet.Compressed, q.settings), done: c.done, kind: native.Rows}
	delete(q.settings, "network_compression_method")
	if q.progress = nativeProgress; c.peer && q.Verb == "SELECT" {
		a.partial(&q, packet.Stage)
	} else {
		q.columns, q.section = a.begin, a.section
	}
	stop := c.watch(ctx, cancel)
	err := c.sess.run(ctx, q, a.chunk)
	if err, ended := c.interrupted(ctx, stop, a, err); ended {
		return err
	}
	return a.end()
}

// interrupted ends a statement that did not run to its end, which is true. Its
// error ends the connection.
func (c *conn) interrupted(ctx context.Context, stop func() (bool, error), a *answer, err error) (error, bool) {
	cancelled, lost := stop()
	if ctx.Err() != nil {
		c.hurry() // for the answer, anew
	}
	switch {
	case isStuck(err):
		return err, true
	case lost != nil:
		return lost, true
	case a.failed != nil:
		return a.failed, true
	case cancelled:
		c.entry.end(errCancelled)
		return c.out.EndOfStream(), true
	case err != nil:
		return c.exception(err), true
	}
	return nil, false
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

// insert takes an INSERT's rows, from the client's blocks or from the text.
func (c *conn) insert(ctx context.Context, q query, blocks *native.Blocks) (err error) {
	rows, err := newSpool(c.server.engine.spoolDir(), &c.server.engine.spooled)
	if err != nil {
		return c.exception(err)
	}
	defer func() { c.server.engine.discard(rows, err) }()
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
	columns, err := insertColumns(ctx, c.sess, q.Insert, q.params)
	if err != nil {
		return errors.Join(errRefused, c.exception(err))
	}
	how := compression(blocks.Compressed(), q.settings)
	if err := c.out.Block(native.Rows, native.Block{Columns: columns}, how); err != nil {
		return err
	}
	if err := c.out.Flush(); err != nil {
		return err
	}
	if err := c.readUntil(ctx); err != nil {
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
			return errPacket(code)
		}
		var size native.BlockSize
		if _, err = blocks.Table(); err == nil {
			size, err = blocks.Copy(rows)
		}
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
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
	a := &answer{out: c.out, done: c.done}
	if rows.size > 0 {
		insert, err := insertFile(q.Insert, rows.path(), format, set)
		if err != nil {
			return c.exception(err)
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := c.watch(ctx, cancel)
		err = c.sess.run(ctx, query{
			Statement: insert, format: "Null", params: q.params, id: q.id,
			progress: nativeProgress,
		}, a.chunk)
		if err, ended := c.interrupted(ctx, stop, a, err); ended {
			return err
		}
	}
	return c.out.EndOfStream()
}
