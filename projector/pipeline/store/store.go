// Package store writes the projector's batches to ClickHouse and asks what has
// landed.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/slots"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// Store is a connection to the views' database for one projector. Inserts of
// different tables may run beside each other; those of one table may not.
type Store struct {
	conn   driver.Conn
	cut    func()
	log    *slog.Logger
	events fold.Writer
	funnel fold.Writer

	failing atomic.Int32 // operations that have failed and are tried again
}

// askTimeout bounds one attempt to read, unless the options do: a server whose
// packets are lost is waited for without counting as one that fails.
const askTimeout = fold.InsertTimeout

// pool is what logs of slow statements call the connections.
const pool = "projector"

// Open prepares the connections, whose slow statements slow is told of. It does not need the server to be there yet.
func Open(opts *clickhouse.Options, slow *dbpool.Slow, log *slog.Logger) (*Store, error) {
	bounded := *opts
	if bounded.ReadTimeout == 0 {
		bounded.ReadTimeout = askTimeout
	}
	cuttable, cut := dbpool.Cuttable(&bounded)
	conn, err := dbpool.Open(cuttable, pool, slow)
	if err != nil {
		return nil, err
	}
	writer := fold.Writer{Opts: cuttable, Slow: slow, Pool: pool}
	return &Store{conn: conn, cut: cut, events: writer, funnel: writer, log: log}, nil
}

// Close closes the connections. No call may be under way.
func (s *Store) Close() error {
	return errors.Join(s.events.Close(), s.funnel.Close(), s.conn.Close())
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
	err = backoff.Do(ctx, func() error {
		err := do(ctx)
		if err != nil {
			if failures++; failures == 1 {
				s.failing.Add(1)
			}
		}
		return err
	}, func(err error, wait time.Duration) {
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
		if err := s.events.Dial(ctx); err != nil {
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
		return s.events.Insert(ctx, "events", token, rows.Rows(), rows.Input())
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
		if err := s.funnel.Dial(ctx); err != nil {
			return err
		}
		return s.funnel.Insert(ctx, "funnel", token, rows.Rows(), rows.Input())
	})
	return err
}
