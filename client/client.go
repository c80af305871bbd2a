package client

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/client/emit"
	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/client/work"
	"github.com/millrace-io/millrace/schemas/event"
)

// Of package emit.
type (
	// Client emits events without keeping its caller.
	Client = emit.Client
	// Options shape a client. The zero value of a field stands for its default.
	Options = emit.Options
	// Breaker shapes the circuit breaker.
	Breaker = emit.Breaker
	// Health is what a service tells of its client, in its own /health.
	Health = emit.Health
)

// Errors of a client's calls, beside *event.Invalid.
var (
	// ErrDropped: the buffer or the spool is full, and the event was dropped.
	ErrDropped = emit.ErrDropped
	// ErrClosed: the client was closed before.
	ErrClosed = emit.ErrClosed
	// ErrTimeout: the spool took too long. The event may still be delivered.
	ErrTimeout = emit.ErrTimeout
	// ErrUndelivered: Close had no time to deliver what the buffer held.
	ErrUndelivered = emit.ErrUndelivered
)

// Environment variables that FromEnv reads.
const (
	EnvNATS    = emit.EnvNATS
	EnvService = emit.EnvService
	EnvToken   = emit.EnvToken
	EnvSpool   = emit.EnvSpool
	EnvOpenFor = emit.EnvOpenFor
)

// Open returns a client and does not wait for Millrace to be there. Close it.
func Open(opts Options) (*Client, error) { return emit.Open(opts) }

// FromEnv returns options from the environment; see [emit.FromEnv].
func FromEnv(service string) Options { return emit.FromEnv(service) }

// Of package publish.
type (
	// Publisher publishes messages. It is safe for concurrent use.
	Publisher = publish.Publisher
	// Config shapes a publisher. The zero value of a field stands for its default.
	Config = publish.Config
	// Batcher gathers messages that many callers publish one by one.
	Batcher = publish.Batcher
	// Message is what goes on a stream.
	Message = publish.Message
	// Outcome is what became of one message of a call.
	Outcome = publish.Outcome
	// Status is what became of a message.
	Status = publish.Status
	// KeyConflict is the error of an event whose key another event has.
	KeyConflict = publish.KeyConflict
	// Login says who is on a connection to NATS, and whom it trusts.
	Login = publish.Login
)

// What can become of a message.
const (
	Failed    = publish.Failed
	Accepted  = publish.Accepted
	Duplicate = publish.Duplicate
)

// Errors of the server, which callers tell apart.
var (
	// ErrTooLarge: the message, or its header, exceeds what the server takes.
	ErrTooLarge = publish.ErrTooLarge
	// ErrStreamFull: the stream or its account has reached a limit.
	ErrStreamFull = publish.ErrStreamFull
	// ErrRefused: the server will not take it, however often it is sent.
	ErrRefused = publish.ErrRefused
	// ErrConflict: an event of another stage or service has the event's key.
	ErrConflict = publish.ErrConflict
	// ErrBusy: too much waits to be published already.
	ErrBusy = publish.ErrBusy
	// ErrUnknown: the context ended before the message's fate was known.
	ErrUnknown = publish.ErrUnknown
)

// Environment variables of a login on NATS that is not part of the address.
const (
	EnvNATSCreds = publish.EnvNATSCreds
	EnvNATSNKey  = publish.EnvNATSNKey
	EnvNATSCA    = publish.EnvNATSCA
	EnvNATSCert  = publish.EnvNATSCert
	EnvNATSKey   = publish.EnvNATSKey
)

// New returns a publisher on a connection; see [publish.New].
func New(nc *nats.Conn, cfg Config) (*Publisher, error) { return publish.New(nc, cfg) }

// NewBatcher returns a batcher that gives up on messages after timeout.
func NewBatcher(p *Publisher, timeout time.Duration) *Batcher { return publish.NewBatcher(p, timeout) }

// EventMessage is the message of an event that decoded to r from data.
func EventMessage(r *event.Record, data []byte) Message { return publish.EventMessage(r, data) }

// LoginFromEnv reads a login from the environment; see [publish.LoginFromEnv].
func LoginFromEnv() Login { return publish.LoginFromEnv() }

// Of package work.
type (
	// Item is an item that is to be worked.
	Item = work.Item
	// Handler works an item; see [work.Handler].
	Handler = work.Handler
	// WorkConfig shapes a worker. The zero value of a field stands for its default.
	WorkConfig = work.Config
	// NewItem is an item that is to be added to a queue.
	NewItem = work.NewItem
	// Enqueued is what became of a new item.
	Enqueued = work.Enqueued
	// Failure is an error of an item of an upload; see [work.Failure].
	Failure = work.Failure
	// Row is a row of a result, as database/sql and pgx have it.
	Row = work.Row
	// Tx is a transaction of Postgres.
	Tx[R Row] = work.Tx[R]
)

// Work takes items of a queue and has the handler work them, until ctx ends; see
// [work.Run].
func Work(ctx context.Context, nc *nats.Conn, queue string, handler Handler, cfg WorkConfig) error {
	return work.Run(ctx, nc, queue, handler, cfg)
}

// Permanent marks an error that no other attempt would mend: the item fails.
func Permanent(err error) error { return work.Permanent(err) }

// After has an item tried again after the delay. The attempt counts.
func After(delay time.Duration, err error) error { return work.After(delay, err) }

// Progress says what a handler is at to whoever looks at its item; see [work.Progress].
func Progress(ctx context.Context, text string) { work.Progress(ctx, text) }

// SetResult sets what the work on an item has come to; see [work.SetResult].
func SetResult(ctx context.Context, result any) error { return work.SetResult(ctx, result) }

// NotFound says that what an item of an upload asks for is not there; see [work.NotFound].
func NotFound(ctx context.Context) { work.NotFound(ctx) }

// Skipped says that an item of an upload needs no result; see [work.Skipped].
func Skipped(ctx context.Context) { work.Skipped(ctx) }

// Enqueue adds items to a queue over NATS; see [work.Enqueue].
func Enqueue(ctx context.Context, nc *nats.Conn, queue string, items ...NewItem) ([]Enqueued, error) {
	return work.Enqueue(ctx, nc, queue, items...)
}

// EnqueueTx adds items to a queue in a transaction of the caller's own; see
// [work.EnqueueTx].
func EnqueueTx[R Row](ctx context.Context, tx Tx[R], queue string, items ...NewItem) ([]Enqueued, error) {
	return work.EnqueueTx(ctx, tx, queue, items...)
}

// SQL makes of a *sql.Tx, or of what else has its method, a Tx.
func SQL[R Row](tx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) R
},
) Tx[R] {
	return work.SQL(tx)
}
