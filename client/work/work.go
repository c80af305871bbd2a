package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Item is an item that is to be worked: a shard of a file at a stage, or an item
// of a user's queue.
type Item struct {
	Filename string // of a shard
	Shard    int
	Stage    string // the queue's name

	ID       int64
	Key      string // of an item of a user's queue
	Group    string
	Priority int
	Payload  json.RawMessage

	Attempt   int // this one's number, from 1
	CreatedAt time.Time
}

// Handler works an item. Without an error the item is done, with the result that
// [SetResult] was given. An error has it tried again after Config.Backoff, or as After
// says, until no attempt is left; one marked by Permanent fails it at once. A panic counts
// as an error.
//
// ctx has the span that added the item, if it is traced: spans that the handler begins with it
// are in the same trace. It ends when the item is no longer this worker's, or may not be, since the
// lease could not be renewed; and when Run has been stopped and its grace is
// over. An error returned after that gives the item back and counts no attempt.
type Handler func(ctx context.Context, item Item) error

// Config shapes a worker. The zero value of a field stands for its default.
type Config struct {
	// Worker is the name under which items are taken, of up to 200 bytes
	// without control characters; default host, process and a random part. Two
	// workers must not share one.
	Worker string
	// Concurrency is how many handlers run at once; default 10.
	Concurrency int
	// Lease is how long an item stays taken when nothing more is heard of
	// this worker; default that of the queue. It is renewed while a handler runs.
	Lease time.Duration
	// Backoff says how long to wait after an attempt in vain; default as the
	// queue says, and where it does not, 1 s, doubled by each attempt up to 5
	// minutes, and between half and the whole of it at random.
	Backoff func(attempt int) time.Duration
	// Grace is how long handlers may go on after ctx has ended, before their
	// own context ends; default 10 s.
	Grace time.Duration
	// Log gets warnings; default none.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Worker == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Worker = host + "-" + strconv.Itoa(os.Getpid()) + "-" + nuid.Next()[16:]
	}
	c.Concurrency = cmp.Or(c.Concurrency, 10)
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c
}

func (c Config) check() error {
	switch {
	case c.Concurrency < 1 || c.Concurrency > 100_000:
		return fmt.Errorf("its Concurrency is %d, not within 1 and 100000", c.Concurrency)
	case c.Lease != 0 && (c.Lease < shortestLease || c.Lease > longestLease):
		return fmt.Errorf("its Lease is %s, not within 1s and 24h", c.Lease)
	case c.Grace < 0:
		return errors.New("its Grace must not be negative")
	case c.Worker == stream.PlainWorker || len(c.Worker) > 200 || strings.ContainsFunc(c.Worker, unicode.IsControl):
		return fmt.Errorf("its Worker %q is longer than 200 bytes, has control characters, or is reserved", c.Worker)
	}
	return nil
}

// Bounds of a lease.
const (
	shortestLease = time.Second
	longestLease  = 24 * time.Hour
)

const (
	firstBackoff = time.Second
	longBackoff  = 5 * time.Minute
)

func backoff(attempt int) time.Duration {
	d := longBackoff
	if attempt < 20 {
		d = min(longBackoff, firstBackoff<<max(attempt-1, 0))
	}
	return d/2 + rand.N(d/2)
}

// Run takes items of a queue, which may be a stage of shards, and has the handler
// work them, until ctx ends: then it takes no more, lets the handlers under way end,
// gives back what has not begun, and returns nil when all of that is durable. It
// outlives lost connections.
//
//	err := work.Run(ctx, nc, "shard-worker", func(ctx context.Context, item work.Item) error {
//		return load(ctx, item.Filename, item.Shard)
//	}, work.Config{Concurrency: 50})
//
// Run calls the handler after Postgres has recorded that this worker has the item:
// no other worker takes it before the lease is over. After the handler, Run has
// Postgres record the item as done. If the worker dies before that, another worker
// starts the item from the beginning.
func Run(ctx context.Context, nc *nats.Conn, stage string, handler Handler, cfg Config) error {
	cfg = cfg.withDefaults()
	err := cfg.check()
	switch {
	case err != nil:
	case nc == nil || handler == nil:
		err = errors.New("a connection and a handler are needed")
	case stage == "" || strings.ContainsAny(stage, ".*> \t\r\n"):
		err = fmt.Errorf("stage %q is no name", stage)
	}
	if err != nil {
		return fmt.Errorf("work: %w", err)
	}
	return newWorker(nc, stage, handler, cfg).run(ctx)
}

// Permanent marks an error that no other attempt would mend: the item fails.
func Permanent(err error) error { return &permanent{err} }

type permanent struct{ err error }

func (e *permanent) Error() string { return e.err.Error() }
func (e *permanent) Unwrap() error { return e.err }

// After has an item tried again after the delay. The attempt counts.
func After(delay time.Duration, err error) error { return &later{delay, err} }

type later struct {
	delay time.Duration
	err   error
}

func (e *later) Error() string { return e.err.Error() }
func (e *later) Unwrap() error { return e.err }
