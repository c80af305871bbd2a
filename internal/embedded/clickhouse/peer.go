package clickhouse

import (
	"context"
	"io"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/chdb"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// tablesStatus tells another server which of the tables that it asks about are here.
func (c *conn) tablesStatus(ctx context.Context) error {
	if !c.peer {
		return errPacket(native.ClientTablesStatus)
	}
	asked, err := c.in.ReadTablesStatus()
	if err != nil {
		return err
	}
	var here []native.TableName
	for _, t := range asked {
		exists := statement.Statement{
			Verb: "EXISTS", Text: "EXISTS TABLE " + quoteName(t.Database) + "." + quoteName(t.Table),
		}
		var answer strings.Builder
		err := c.sess.run(ctx, query{Statement: exists, format: "TSV"}, func(chunk chdb.Chunk) error {
			answer.Write(chunk.Data)
			return nil
		})
		if err != nil {
			return err
		}
		if strings.TrimSpace(answer.String()) == "1" {
			here = append(here, t)
		}
	}
	return c.out.TablesStatus(here)
}

// skipScalars reads values that another server sends beside its query, such as _shard_num. The library takes none: a
// query that needs one has its zero, or fails.
func (c *conn) skipScalars(blocks *native.Blocks) error {
	if _, err := blocks.Table(); err != nil {
		return err
	}
	_, err := blocks.Copy(io.Discard)
	return err
}

// partial has q answered as another server has asked: to a stage, and in the engine's own blocks.
func (a *answer) partial(q *query, stage uint64) {
	s := chdb.Stage(stage)
	q.stage, a.asFile = &s, true
}

// file sends a chunk that is one block as the engine has written it.
func (a *answer) file(c chdb.Chunk) error {
	if len(c.Data) == 0 {
		return nil
	}
	rows, err := native.FileRows(c.Data)
	if err == nil && c.Rows != 0 && rows != c.Rows {
		err = exception(codeNotImplemented, "NOT_IMPLEMENTED",
			"Cannot send the result to another server: a chunk of %d rows begins with a block of %d", c.Rows, rows)
	}
	if err != nil {
		return err
	}
	a.rows, a.blocks, a.bytes = a.rows+rows, a.blocks+1, a.bytes+uint64(len(c.Data))
	a.failed = a.out.FileBlock(c.Data, a.how)
	return a.failed
}
