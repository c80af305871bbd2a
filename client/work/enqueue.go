package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// NewItem is an item that is to be added to a queue.
type NewItem struct {
	// Payload is encoded as JSON, and has up to 64 KiB then.
	Payload any
	// Key is unique among the live items of the queue: one that is there already
	// is not added again. Empty: the item has none.
	Key string
	// Group is a name by which items are limited, listed and cancelled together.
	Group string
	// Priority is from 0 to 9; higher ones are taken first.
	Priority int
	// RunAt is the time before which nobody takes the item; zero: at once.
	RunAt time.Time
}

// Enqueued is what became of a new item.
type Enqueued struct {
	ID int64
	// Existing: a live item with the key was there before, and ID names it.
	Existing bool
}

func encodeItems(items []NewItem) ([]stream.EnqueueItem, error) {
	out := make([]stream.EnqueueItem, len(items))
	for i, it := range items {
		payload, err := json.Marshal(it.Payload)
		if err != nil {
			return nil, fmt.Errorf("payload of item %d: %w", i, err)
		}
		out[i] = stream.EnqueueItem{
			Payload: payload, Key: it.Key, Group: it.Group, Priority: int16(min(max(it.Priority, -1), 10)),
		}
		if !it.RunAt.IsZero() {
			at := it.RunAt.UTC()
			out[i].RunAt = &at
		}
	}
	return out, nil
}

// Enqueue adds items to a queue over NATS, all or none, and returns what became
// of each when that is durable. While no server is there it asks again until ctx
// ends. All of them have to fit into one message of the server, of 1 MiB unless it
// is configured otherwise. After an error that is not ErrRefused they may have been
// added all the same: an item with a key can be added again without harm as long as
// the first has not ended.
func Enqueue(ctx context.Context, nc *nats.Conn, queue string, items ...NewItem) ([]Enqueued, error) {
	encoded, err := encodeItems(items)
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", queue, err)
	}
	data, err := json.Marshal(stream.Enqueue{Queue: queue, Items: encoded})
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", queue, err)
	}
	request := &nats.Msg{Subject: stream.WorkEnqueue, Data: data}
	if traced := stream.TraceOf(ctx); traced != "" {
		request.Header = nats.Header{stream.TraceParent: {traced}}
	}
	var msg *nats.Msg
	err = askAgain.Do(ctx, func() (err error) {
		msg, err = nc.RequestMsgWithContext(ctx, request)
		if errors.Is(err, nats.ErrNoResponders) { // no server has had the request
			return err
		}
		return retry.Stop(err)
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", queue, err)
	}
	var answer stream.Enqueued
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, fmt.Errorf("enqueue to %s: answer: %w", queue, err)
	}
	switch {
	case answer.Refused:
		return nil, fmt.Errorf("enqueue to %s: %w: %s", queue, publish.ErrRefused, answer.Error)
	case answer.Error != "":
		return nil, fmt.Errorf("enqueue to %s: %s", queue, answer.Error)
	case len(answer.Items) != len(items):
		return nil, fmt.Errorf("enqueue to %s: %d answers to %d items", queue, len(answer.Items), len(items))
	}
	out := make([]Enqueued, len(items))
	for i, a := range answer.Items {
		out[i] = Enqueued(a)
	}
	return out, nil
}

// Row is a row of a result, as database/sql and pgx have it.
type Row interface{ Scan(into ...any) error }

// Tx is a transaction of Postgres: a pgx.Tx, or a connection of pgx. SQL makes one
// of a *sql.Tx.
type Tx[R Row] interface {
	QueryRow(ctx context.Context, sql string, args ...any) R
}

// enqueueSQL returns one JSON document, which every driver can read.
const enqueueSQL = `SELECT
	coalesce(json_agg(json_build_object('id', item_id, 'existing', existing) ORDER BY place), '[]')::text
	FROM millrace.enqueue($1::text, $2::text::json)`

// EnqueueTx adds items to a queue in a transaction of the caller's own, in the
// database that Millrace uses: they are in the queue if that commits, and were
// never there if it does not. The caller's role needs USAGE of the schema millrace
// and EXECUTE of millrace.enqueue(text, json), and nothing else.
func EnqueueTx[R Row](ctx context.Context, tx Tx[R], queue string, items ...NewItem) ([]Enqueued, error) {
	encoded, err := encodeItems(items)
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", queue, err)
	}
	data, err := json.Marshal(encoded)
	if err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", queue, err)
	}
	var answer string
	if err := tx.QueryRow(ctx, enqueueSQL, queue, string(data)).Scan(&answer); err != nil {
		return nil, fmt.Errorf("enqueue to %s: %w", queue, err)
	}
	var added []stream.EnqueuedItem
	if err := json.Unmarshal([]byte(answer), &added); err != nil {
		return nil, fmt.Errorf("enqueue to %s: answer: %w", queue, err)
	}
	out := make([]Enqueued, len(added))
	for i, a := range added {
		out[i] = Enqueued(a)
	}
	return out, nil
}

// SQL makes a Tx of a *sql.Tx, or of any other type with its QueryRowContext.
func SQL[R Row](tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) R
},
) Tx[R] {
	return sqlTx[R]{tx.QueryRowContext}
}

type sqlTx[R Row] struct {
	query func(ctx context.Context, query string, args ...any) R
}

func (t sqlTx[R]) QueryRow(ctx context.Context, sql string, args ...any) R {
	return t.query(ctx, sql, args...)
}
