// Package store writes the projector's batches to ClickHouse and asks what has
// landed.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/ch-go"
	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/slots"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// Store is a connection to the views' database for one projector. Inserts of
// different tables may run beside each other; those of one table may not.
type Store struct {
	opts   *clickhouse.Options
	conn   driver.Conn
	cut    func()
	log    *slog.Logger
	events writer
	funnel writer

	failing atomic.Int32 // operations that have failed and are tried again
}

// askTimeout bounds one attempt to read, unless the options do: a server whose
// packets are lost is waited for without counting as one that fails.
const askTimeout = insertTimeout

// Open prepares the connections. It does not need the server to be there yet.
func Open(opts *clickhouse.Options, log *slog.Logger) (*Store, error) {
	bounded := *opts
	if bounded.ReadTimeout == 0 {
		bounded.ReadTimeout = askTimeout
	}
	cuttable, cut := dbpool.Cuttable(&bounded)
	conn, err := clickhouse.Open(cuttable)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	s := &Store{opts: opts, conn: conn, cut: cut, log: log}
	s.events.opts, s.funnel.opts = cuttable, cuttable
	return s, nil
}

// Close closes the connections. No call may be under way.
func (s *Store) Close() error {
	return errors.Join(s.events.close(), s.funnel.close(), s.conn.Close())
}

// Cut ends all reads and inserts, also those that wait for a server that hangs, whatever
// their contexts say. There can be no others after it.
func (s *Store) Cut() { s.cut() }

// Failing tells whether the server is away, or refuses what it is asked. It may
// be called at any time.
func (s *Store) Failing() bool { return s.failing.Load() > 0 }

// retry repeats do until it succeeds or ctx ends, and counts the failures that were
// followed by another attempt. It also repeats what the server refuses: the rows must
// not be lost.
func (s *Store) retry(ctx context.Context, what string, do func(context.Context) error) (failures int, err error) {
	err = backoff.Do(ctx, func() error { return do(ctx) }, func(err error, wait time.Duration) {
		if failures++; failures == 1 {
			s.failing.Add(1)
		}
		s.log.Warn("clickhouse failed, trying again", "operation", what, "error", err, "failures", failures,
			"retry_in", wait)
	})
	if failures > 0 {
		s.failing.Add(-1)
	}
	if err != nil {
		return failures, fmt.Errorf("%s: %w", what, err)
	}
	return failures, nil
}

// backoff is how long to wait before ClickHouse is asked again.
var backoff = retry.Backoff{First: 50 * time.Millisecond, Most: 5 * time.Second}

// writer inserts native blocks over a connection of its own, which it makes
// anew after an error.
type writer struct {
	opts   *clickhouse.Options
	client *ch.Client
}

// insertTimeout bounds one attempt. An attempt that takes longer is repeated,
// under the same token.
const insertTimeout = 2 * time.Minute

// fewRows is up to how many rows an insert leaves skip indexes to the merge that will
// come: they are two fifths of the files of a part, each of which is synced, and few rows
// are soon read.
const fewRows = 5000

// insert needs a connection that has been dialled.
func (w *writer) insert(ctx context.Context, table, token string, rows int, input proto.Input) error {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	var settings []ch.Setting
	if rows <= fewRows {
		settings = append(settings, ch.Setting{Key: "materialize_skip_indexes_on_insert", Value: "0"})
	}
	for key, value := range w.opts.Settings { // of the DSN, such as insert_quorum
		settings = append(settings, ch.Setting{Key: key, Value: fmt.Sprint(value)})
	}
	err := w.client.Do(ctx, ch.Query{
		Body:  input.Into(table),
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
	if err != nil {
		return errors.Join(fmt.Errorf("insert into %s: %w", table, err), w.close())
	}
	return nil
}

func (w *writer) dial(ctx context.Context) error {
	if w.client != nil && !w.client.IsClosed() {
		return nil
	}
	o := ch.Options{
		Address:    w.opts.Addr[0],
		Database:   w.opts.Auth.Database,
		User:       w.opts.Auth.Username,
		Password:   w.opts.Auth.Password,
		Dialer:     dialer(w.opts.DialContext), // which knows of TLS
		ClientName: "millrace-projector",
		// Else a server that accepts and says nothing is waited for without
		// counting as one that fails.
		HandshakeTimeout: 10 * time.Second,
		ReadTimeout:      insertTimeout,
	}
	if c := w.opts.Compression; c != nil && c.Method == clickhouse.CompressionLZ4 {
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

func (w *writer) close() error {
	if w.client == nil || w.client.IsClosed() {
		w.client = nil
		return nil
	}
	err := w.client.Close()
	w.client = nil
	return err
}

// Insert names the rows of an insert: those of the stream sequences (From, To].
type Insert struct {
	Group    slots.Group
	From, To uint64
	// Recovered says that this process or another one may have tried the insert
	// before.
	Recovered bool
}

func (in Insert) token(table string) string {
	return fmt.Sprintf("%s/%d/%d-%d", table, in.Group.ID, in.From, in.To)
}

// InsertEvents writes rows of the events table exactly once. It returns when they
// are durable or ctx ends.
func (s *Store) InsertEvents(ctx context.Context, in Insert, rows *schema.EventBlock) error {
	if rows.Rows() == 0 {
		return nil
	}
	certain, err := s.insertMissing(ctx, in, rows, in.token("events"), in.Recovered)
	if err != nil || certain {
		return err
	}
	return s.repair(ctx, in, rows)
}

// insertMissing inserts rows under a token. If the insert may have been tried
// before, it asks first which rows have landed (invariant 5): a server that loses
// power forgets the last tokens. It connects before it asks, so that the server
// cannot restart between the answer and an insert that succeeds. It returns true if
// the rows are certain to be there: the server may know a token without the rows.
func (s *Store) insertMissing(
	ctx context.Context, in Insert, rows *schema.EventBlock, token string, tried bool,
) (certain bool, err error) {
	_, err = s.retry(ctx, "insert events "+token, func(ctx context.Context) error {
		if err := s.events.dial(ctx); err != nil {
			return err
		}
		certain = !tried
		if tried {
			missing, err := s.missing(ctx, in, rows)
			if err != nil {
				return err
			}
			if missing == nil {
				certain = true
				return nil
			}
			rows = missing
		}
		tried = true
		return s.events.insert(ctx, "events", token, rows.Rows(), rows.Input())
	})
	return certain, err
}

// InsertFunnel writes whole states of funnel rows. Writing them again changes
// nothing.
func (s *Store) InsertFunnel(ctx context.Context, in Insert, rows *schema.FunnelBlock) error {
	if rows.Rows() == 0 {
		return nil
	}
	token := in.token("funnel")
	_, err := s.retry(ctx, "insert funnel "+token, func(ctx context.Context) error {
		if err := s.funnel.dial(ctx); err != nil {
			return err
		}
		return s.funnel.insert(ctx, "funnel", token, rows.Rows(), rows.Input())
	})
	return err
}
