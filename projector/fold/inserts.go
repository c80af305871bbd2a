package fold

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// Writer inserts native blocks over a connection of its own, which it makes
// anew after an error. One goroutine at a time may use it.
type Writer struct {
	Opts   *clickhouse.Options
	Slow   *dbpool.Slow // is told of slow inserts; nil: nobody is
	Pool   string       // what logs of slow inserts call the connection
	client *ch.Client
}

// InsertTimeout bounds one attempt. An attempt that takes longer is repeated,
// under the same token.
const InsertTimeout = 2 * time.Minute

// fewRows is up to how many rows an insert leaves skip indexes to the merge that will
// come: they are two fifths of the files of a part, each of which is synced, and few rows
// are soon read.
const fewRows = 5000

// Insert inserts rows under a deduplication token. It needs a connection that has been dialled.
func (w *Writer) Insert(ctx context.Context, table, token string, rows int, input proto.Input) error {
	ctx, cancel := context.WithTimeout(ctx, InsertTimeout)
	defer cancel()
	var settings []ch.Setting
	if rows <= fewRows {
		settings = append(settings, ch.Setting{Key: "materialize_skip_indexes_on_insert", Value: "0"})
	}
	for key, value := range w.Opts.Settings { // of the DSN, such as insert_quorum
		settings = append(settings, ch.Setting{Key: key, Value: fmt.Sprint(value)})
	}
	text, begin := input.Into(table), time.Now()
	err := w.client.Do(ctx, ch.Query{
		Body:  text,
		Input: input,
		Settings: append(settings,
			ch.Setting{Key: "insert_deduplication_token", Value: token},
			ch.Setting{Key: "insert_deduplicate", Value: "1"},
			ch.Setting{Key: "async_insert", Value: "0"},
			ch.Setting{Key: "distributed_foreground_insert", Value: "1"}, // on a cluster: what is confirmed is there
			ch.Setting{Key: "max_partitions_per_insert_block", Value: "0"},
			ch.Setting{Key: "max_insert_block_size", Value: "1048576"},
			ch.Setting{Key: "optimize_on_insert", Value: "0"}, // no key is in a block twice
		),
	})
	w.Slow.Inserted(ctx, w.Pool, text, rows, begin, err)
	if err != nil {
		return errors.Join(fmt.Errorf("insert into %s: %w", table, err), w.Close())
	}
	return nil
}

// Dial connects, unless there is a connection.
func (w *Writer) Dial(ctx context.Context) error {
	if w.client != nil && !w.client.IsClosed() {
		return nil
	}
	o := ch.Options{
		Address:    w.Opts.Addr[0],
		Database:   w.Opts.Auth.Database,
		User:       w.Opts.Auth.Username,
		Password:   w.Opts.Auth.Password,
		Dialer:     dialer(w.Opts.DialContext), // which knows of TLS
		ClientName: "millrace-projector",
		// Else a server that accepts and says nothing is waited for without
		// counting as one that fails.
		HandshakeTimeout: 10 * time.Second,
		ReadTimeout:      InsertTimeout,
	}
	if c := w.Opts.Compression; c != nil && c.Method == clickhouse.CompressionLZ4 {
		o.Compression = ch.CompressionLZ4
	}
	client, err := ch.Dial(ctx, o)
	if err != nil {
		return fmt.Errorf("connect to clickhouse at %s: %w", o.Address, err)
	}
	w.client = client
	return nil
}

// dialer is a dialer of the one driver for the other.
type dialer func(ctx context.Context, addr string) (net.Conn, error)

// DialContext implements ch.Dialer.
func (d dialer) DialContext(ctx context.Context, _, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return d(ctx, addr)
}

// dialTimeout bounds making a connection for inserts, without its handshake.
const dialTimeout = 5 * time.Second

// Close closes the connection, if there is one.
func (w *Writer) Close() error {
	if w.client == nil || w.client.IsClosed() {
		w.client = nil
		return nil
	}
	err := w.client.Close()
	w.client = nil
	return err
}
