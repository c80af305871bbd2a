package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/klauspost/compress/zstd"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// insertRows is about how many rows an insert has. The server holds them in memory.
const insertRows = 500_000

// restoring is a table that a database has while a restore to it has not ended.
const restoring = "restoring"

// Check returns an error for a database with tables, unless a restore to it has not ended.
func (d *Database) Check(ctx context.Context) error {
	there, err := d.list(ctx, sqlNames)
	if err != nil || len(there) == 0 || slices.Contains(there, restoring) {
		return err
	}
	return fmt.Errorf("the database %s of ClickHouse has tables (%s): restore into an empty database",
		d.opts.Auth.Database, there[0])
}

// sqlNames lists tables, and views before them.
const sqlNames = `SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY engine LIKE '%MergeTree', name`

// Prepare makes the tables in a database that has none. What a restore has left there that did not end, it removes.
// Until Release, the database is marked.
func (d *Database) Prepare(ctx context.Context) error {
	if err := d.Check(ctx); err != nil {
		return err
	}
	left, err := d.list(ctx, sqlNames)
	if err != nil {
		return err
	}
	for _, name := range left {
		if name == restoring {
			continue // it marks the database meanwhile
		}
		if err := d.exec(ctx, "DROP TABLE IF EXISTS "+quoted(name)); err != nil {
			return err
		}
	}
	if err := d.exec(ctx, "CREATE TABLE IF NOT EXISTS "+restoring+" (at DateTime) ENGINE = MergeTree ORDER BY at"); err != nil {
		return err
	}
	return schema.Migrate(ctx, d.db)
}

// Release removes the mark of a database whose restore has ended.
func (d *Database) Release(ctx context.Context) error {
	return d.exec(ctx, "DROP TABLE IF EXISTS "+restoring)
}

// Restore reads the rows of a part into its table.
func (d *Database) Restore(ctx context.Context, part Part, from io.Reader) error {
	columns, err := d.columns(ctx, part.Table)
	if err != nil {
		return err
	}
	into := part.Table
	if hasState(columns) {
		into += "_restored"
		if err := d.exec(ctx, stagingTable(into, columns)); err != nil {
			return err
		}
	}
	rows, err := d.insert(ctx, into, from)
	if err != nil {
		return fmt.Errorf("restore table %s: %w", part.Table, err)
	}
	if rows != part.Rows {
		return fmt.Errorf("restore table %s: %s has %d rows, and the manifest says %d", part.Table, part.File, rows,
			part.Rows)
	}
	if into == part.Table {
		return nil
	}
	return errors.Join(d.exec(ctx, fromStaging(part.Table, into, columns)), d.exec(ctx, "DROP TABLE "+quoted(into)))
}

func (d *Database) exec(ctx context.Context, statement string) error {
	if _, err := d.db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("restore ClickHouse: %w", err)
	}
	return nil
}

// stagingTable takes rows whose states are text.
func stagingTable(name string, columns []column) string {
	var list []string
	for _, c := range columns {
		kind := c.kind
		if c.isState() {
			kind = "String"
		}
		list = append(list, quoted(c.name)+" "+kind)
	}
	return "CREATE TABLE " + quoted(name) + " (" + strings.Join(list, ", ") + ") ENGINE = MergeTree ORDER BY tuple()"
}

func fromStaging(table, staging string, columns []column) string {
	var names, values []string
	for _, c := range columns {
		names = append(names, quoted(c.name))
		value := quoted(c.name)
		if c.isState() {
			value = fmt.Sprintf("CAST(unhex(%s), '%s')", value, strings.ReplaceAll(c.kind, "'", "\\'"))
		}
		values = append(values, value)
	}
	return "INSERT INTO " + quoted(table) + " (" + strings.Join(names, ", ") + ") SELECT " + strings.Join(values, ", ") +
		" FROM " + quoted(staging) + " SETTINGS max_partitions_per_insert_block = 0"
}

// insert inserts the blocks of a file.
func (d *Database) insert(ctx context.Context, table string, from io.Reader) (rows int64, err error) {
	client, err := d.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	plain, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	defer plain.Close()
	r := &blockReader{from: proto.NewReader(plain)}
	for {
		more, err := r.next()
		if err != nil || !more {
			return r.rows, err
		}
		input, err := inputOf(r.results)
		if err != nil {
			return r.rows, err
		}
		until := r.rows + insertRows
		if err := client.Do(ctx, ch.Query{
			Body: input.Into(table), Input: input,
			OnInput: func(context.Context) error {
				if r.rows < until {
					if more, err := r.next(); err != nil || more {
						return err
					}
				}
				input.Reset() // what is left in it would be sent again
				return io.EOF
			},
			Settings: []ch.Setting{
				{Key: "insert_deduplicate", Value: "0"},
				{Key: "async_insert", Value: "0"},
				{Key: "max_partitions_per_insert_block", Value: "0"},
				{Key: "max_execution_time", Value: "0"},
				{Key: "max_insert_block_size", Value: "1048576"},
			},
		}); err != nil {
			return r.rows, err
		}
	}
}

// blockReader reads blocks as the format Native has them.
type blockReader struct {
	from    *proto.Reader
	results proto.Results
	rows    int64
}

// next reads a block into results. It returns false at the end.
func (r *blockReader) next() (bool, error) {
	var block proto.Block
	err := block.DecodeRawBlock(r.from, nativeFile, r.results.Auto())
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // the sum of the file tells that it is whole
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read a block: %w", err)
	}
	r.rows += int64(block.Rows)
	return true, nil
}
