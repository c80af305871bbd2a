package clickhouse

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/millrace-io/millrace/internal/embedded/clickhouse/native"
	"github.com/millrace-io/millrace/internal/embedded/clickhouse/statement"
)

// external is a table that a client sends with its statement.
type external struct {
	name      string
	structure string // "a UInt8, b String"
	format    string
	rows      *spool
}

// externals are the external tables of a statement.
type externals []*external

// maxTables is how many external tables a statement can have.
const maxTables = 100

// add adds a table without rows.
func (t *externals) add(name string, e *engine) (*external, error) {
	if len(*t) == maxTables {
		return nil, exception(codeBadArguments, "BAD_ARGUMENTS", "The statement has more than %d external tables",
			maxTables)
	}
	rows, err := newSpool(e.spoolDir(), &e.spooled)
	if err != nil {
		return nil, err
	}
	table := &external{name: name, rows: rows}
	*t = append(*t, table)
	return table, nil
}

func (t externals) find(name string) *external {
	for _, table := range t {
		if table.name == name {
			return table
		}
	}
	return nil
}

// attach makes the tables in a session. Call drop with the error of the statement
// that uses them.
func (t externals) attach(ctx context.Context, sess session) (drop func(error), err error) {
	made := 0
	drop = func(err error) {
		if isStuck(err) {
			return // as is the session
		}
		for _, table := range t[:made] {
			_ = perform(context.WithoutCancel(ctx), sess,
				statement.Statement{Verb: "DROP", Text: "DROP TEMPORARY TABLE " + quoteName(table.name)})
		}
	}
	for _, table := range t {
		text := "CREATE TEMPORARY TABLE " + quoteName(table.name) + " (" + table.structure + ") ENGINE = Memory"
		if err = perform(ctx, sess, statement.Statement{Verb: "CREATE", Text: text}); err == nil {
			made++
			err = table.fill(ctx, sess)
		}
		if err != nil {
			drop(err)
			return nil, err
		}
	}
	return drop, nil
}

func (t *external) fill(ctx context.Context, sess session) error {
	if t.rows.size == 0 {
		return nil
	}
	insert, err := insertFile(&statement.Insert{Head: "INSERT INTO " + quoteName(t.name)}, t.rows.path(), t.format, nil)
	if err != nil {
		return err
	}
	return perform(ctx, sess, insert)
}

// discard closes the tables' files after the statement, which ended with err.
func (t externals) discard(e *engine, err error) {
	for _, table := range t {
		e.discard(table.rows, err)
	}
}

func perform(ctx context.Context, sess session, s statement.Statement) error {
	return sess.run(ctx, query{Statement: s, format: "Null"}, discard)
}

// receiveTables reads the blocks between a query and its empty block. There are
// none where blocks is nil.
func (c *conn) receiveTables(blocks *native.Blocks) (tables externals, err error) {
	if blocks == nil {
		return nil, nil
	}
	for {
		code, err := c.in.Packet()
		if err == nil && code == native.ClientScalar && c.peer {
			if err := c.skipScalars(blocks); err != nil {
				return tables, err
			}
			continue
		}
		if err == nil && code != native.ClientData {
			err = errPacket(code)
		}
		var name string
		if err == nil {
			name, err = blocks.Table()
		}
		if err != nil {
			return tables, fmt.Errorf("read external tables: %w", err)
		}
		if name == "" { // the empty block, which ends them
			_, err := blocks.Copy(io.Discard)
			return tables, err
		}
		t := tables.find(name)
		if t == nil {
			if t, err = tables.add(name, c.server.engine); err != nil {
				return tables, err
			}
			t.format = "Native"
		}
		size, err := blocks.Copy(t.rows)
		if err != nil {
			return tables, fmt.Errorf("read external table %s: %w", name, err)
		}
		if t.structure == "" {
			t.structure = structureOf(size.Head)
		}
	}
}

func structureOf(columns []native.Column) string {
	var list []string
	for _, c := range columns {
		list = append(list, quoteName(c.Name)+" "+c.Type)
	}
	return strings.Join(list, ", ")
}
