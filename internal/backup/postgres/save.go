// Package postgres copies the tables of the schema millrace as of one moment, and puts them back.
//
// The embedded Postgres has no pg_dump, and its own role may not replicate, nor may those of many servers that are
// rented. What every server has is COPY within one snapshot. The tables themselves are made by the migrations, so
// their rows and the positions of their sequences are all that there is to copy.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/klauspost/compress/zstd"

	schema "github.com/millrace-io/millrace/schemas/postgres"
)

// Store is the name under which the manifest has what this package needs.
const Store = "postgres"

// Info is what the manifest says of the tables.
type Info struct {
	Server    string           `json:"server"`
	Versions  []int64          `json:"versions"` // of the migrations
	Tables    []Table          `json:"tables"`   // each after those that it refers to
	Sequences map[string]int64 `json:"sequences"`
}

// Table is a table and its file.
type Table struct {
	Name    string   `json:"name"`
	File    string   `json:"file"`
	Columns []string `json:"columns"`
	Rows    int64    `json:"rows"`
}

// Moment is a snapshot of the database: all that is read of it is as of one time.
type Moment struct {
	conn *pgx.Conn
	tx   pgx.Tx
}

// held are the tables whose writers wait while a moment is taken: whoever publishes to or reads from a stream what
// belongs to a transaction, writes one of them in it.
var held = []string{"item", "batch", "message_outbox"}

const (
	// holdWait bounds waiting for those who write them at present. It is shorter than the time after which
	// Postgres ends one of two transactions that wait for each other, so that this one gives way.
	holdWait  = 500 * time.Millisecond
	holdTries = 60
)

// lockTimeout is the code of Postgres for a lock that did not come in time.
const lockTimeout = "55P03"

// Freeze takes a snapshot. It calls meanwhile while the held tables are locked against writers.
func Freeze(ctx context.Context, dsn string, meanwhile func(context.Context) error) (m *Moment, err error) {
	holder, err := connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	defer holder.Close(context.WithoutCancel(ctx)) // which releases the locks
	if err := hold(ctx, holder); err != nil {
		return nil, err
	}
	m = new(Moment)
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.conn, err = connect(ctx, dsn); err != nil {
		return nil, fmt.Errorf("connect to Postgres: %w", err)
	}
	if m.tx, err = m.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}); err == nil {
		_, err = m.tx.Exec(ctx, "SELECT pg_current_snapshot()") // the first statement takes the snapshot
	}
	if err != nil {
		return nil, fmt.Errorf("take a snapshot of Postgres: %w", err)
	}
	return m, meanwhile(ctx)
}

// connectWait bounds the time until a server answers that takes connections: one that hangs takes them, too.
const connectWait = 10 * time.Second

func connect(ctx context.Context, dsn string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectWait
	}
	return pgx.ConnectConfig(ctx, cfg)
}

// hold has writers of the held tables wait until the connection ends.
func hold(ctx context.Context, conn *pgx.Conn) error {
	for attempt := 1; ; attempt++ {
		tx, err := conn.Begin(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, fmt.Sprintf("SET LOCAL lock_timeout = %d", holdWait.Milliseconds()))
		}
		if err == nil {
			_, err = tx.Exec(ctx, "LOCK TABLE "+schema.Schema+"."+strings.Join(held, ", "+schema.Schema+".")+" IN SHARE MODE")
		}
		if err == nil {
			return nil
		}
		var refused *pgconn.PgError
		if attempt == holdTries || !errors.As(err, &refused) || refused.Code != lockTimeout {
			return fmt.Errorf("hold the writers of Postgres for a moment: %w", err)
		}
		if err := tx.Rollback(ctx); err != nil {
			return fmt.Errorf("hold the writers of Postgres for a moment: %w", err)
		}
		select { // writers that have waited have their turn
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(holdWait):
		}
	}
}

// Close ends the snapshot.
func (m *Moment) Close() {
	if m.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = m.conn.Close(ctx) // nothing was written
	}
}

// Save writes all tables, each into the file that create makes.
func (m *Moment) Save(ctx context.Context, create func(name string, write func(io.Writer) error) error) (i Info, err error) {
	if i.Server, err = m.text(ctx, "SHOW server_version"); err != nil {
		return i, err
	}
	if i.Versions, err = schema.Applied(ctx, m.tx); err != nil {
		return i, err
	}
	if i.Sequences, err = m.sequences(ctx); err != nil {
		return i, err
	}
	if i.Tables, err = m.tables(ctx); err != nil {
		return i, err
	}
	for at := range i.Tables {
		t := &i.Tables[at]
		t.File = "postgres/" + t.Name + ".copy.zst"
		if err := create(t.File, func(to io.Writer) (err error) {
			t.Rows, err = m.copy(ctx, t, to)
			return err
		}); err != nil {
			return i, err
		}
	}
	return i, nil
}

func (m *Moment) copy(ctx context.Context, t *Table, to io.Writer) (rows int64, err error) {
	compressed, err := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	tag, err := m.conn.PgConn().CopyTo(ctx, compressed, "COPY ("+t.selection()+") TO STDOUT")
	if err := errors.Join(err, compressed.Close()); err != nil {
		return 0, fmt.Errorf("copy table %s: %w", t.Name, err)
	}
	return tag.RowsAffected(), nil
}

// history is read in the order of transactions, whose ids are the server's own: those of another server would lie in
// its future, and their rows would be shown to nobody. So the order is kept in the ids of the rows.
const history = "history"

func (t *Table) selection() string {
	var list []string
	for _, c := range t.Columns {
		name := pgx.Identifier{c}.Sanitize()
		switch {
		case t.Name == history && c == "id":
			name = "row_number() OVER (ORDER BY tx, id) AS id"
		case t.Name == history && c == "tx":
			name = "'3'::xid8 AS tx" // the first that a server has given
		}
		list = append(list, name)
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + pgx.Identifier{schema.Schema, t.Name}.Sanitize()
}

func (m *Moment) text(ctx context.Context, query string) (text string, err error) {
	if err := m.tx.QueryRow(ctx, query).Scan(&text); err != nil {
		return "", fmt.Errorf("read Postgres: %w", err)
	}
	return text, nil
}

// sequences are no part of a snapshot: they are as of now, which is not before it.
func (m *Moment) sequences(ctx context.Context) (map[string]int64, error) {
	rows, err := m.tx.Query(ctx, `SELECT sequencename::text, last_value FROM pg_sequences
		WHERE schemaname = $1 AND last_value IS NOT NULL`, schema.Schema)
	if err != nil {
		return nil, fmt.Errorf("read the sequences of Postgres: %w", err)
	}
	all, name, last := map[string]int64{}, "", int64(0)
	if _, err := pgx.ForEachRow(rows, []any{&name, &last}, func() error {
		all[name] = last
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read the sequences of Postgres: %w", err)
	}
	return all, nil
}
