package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/combine"
)

// Config shapes the store. The zero value of a field stands for its default.
type Config struct {
	// Sweep is how often the store ends expired leases and delays and folds
	// counters; default 200 ms.
	Sweep time.Duration
	// Kinds are the kinds of items.
	Kinds []Kind
	// Tracer has spans for the moves of items that are traced; default: nothing is traced.
	Tracer trace.Tracer
}

// Store keeps the state of items in Postgres. It is safe for concurrent use; the
// pool is the caller's.
type Store struct {
	cfg       Config
	pool      *pgxpool.Pool
	log       *slog.Logger
	announced chan struct{}
	folded    atomic.Int64 // rows of tally_delta, since they were vacuumed
	oldest    ages
	known     sync.Map // names of queues → remembered
	hooks     map[string][]Hook
	follow    []Hook // of queues that are followed
	bars      map[string][]Bar
	barFollow []Bar        // of queues that are followed
	clock     *ServerClock // of the database; nil before the first sweep
	moves     *combine.Lanes[lane, Command, Result]
	leases    *combine.Lanes[ID, Command, bool]
}

// New returns the store on a pool, which Configure has prepared. It asks
// nothing of the database.
func New(cfg Config, pool *pgxpool.Pool, log *slog.Logger) (*Store, error) {
	if pool == nil || log == nil || len(cfg.Kinds) == 0 {
		return nil, errors.New("queue: a connection pool, a logger and a kind of items are needed")
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = 200 * time.Millisecond
	}
	s := &Store{
		cfg: cfg, pool: pool, log: log.With("component", "queue"), announced: make(chan struct{}, 1),
		oldest: ages{turn: make(chan struct{}, 1)}, hooks: map[string][]Hook{}, bars: map[string][]Bar{},
	}
	s.moves = newLanes(func(ctx context.Context, l lane, commands []Command) ([]Result, error) {
		return s.ApplyAlso(ctx, l.queue, l.move, commands, nil)
	})
	s.leases = newLanes(s.extend)
	return s, nil
}

// Announced gets a token after a transaction of this store has made entries in
// the outbox.
func (s *Store) Announced() <-chan struct{} { return s.announced }

// Announce sends that token.
func (s *Store) Announce() {
	select {
	case s.announced <- struct{}{}:
	default:
	}
}

// ErrNoQueue is the error of a queue that does not exist.
var ErrNoQueue = errors.New("there is no such queue")

func (s *Store) kindOf(q ID) (Kind, error) {
	for _, k := range s.cfg.Kinds {
		if k.Holds(q) {
			return k, nil
		}
	}
	return nil, ErrNoQueue
}

// Configure prepares the connections of a pool that a store is to work on.
// Every statement finds few rows by an index. A plan that reads a whole table
// would look as good while the table is small, and be kept while it grows, so
// such plans are off, and no statement becomes slow before statistics catch up.
// A process that stalls in the middle of a transaction, or whose machine is gone, keeps
// the rows it has locked for openWait and no longer.
func Configure(cfg *pgxpool.Config) {
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "+
			"SET idle_in_transaction_session_timeout = "+strconv.FormatInt(openWait.Milliseconds(), 10))
		return err
	}
}

// openWait is how long a transaction waits for the next word of its process.
const openWait = 10 * time.Second

// Ping asks whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// Pool is the pool that the store works on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// ErrAgain is the error of a transaction that will go better when it is tried
// again at once.
var ErrAgain = errors.New("the transaction has to be tried again")

// tries is how often a transaction is begun that Postgres has cut short to let
// another one go on.
const tries = 4

// Transact runs do in a transaction and commits it. The first and the last
// statement share their way to the server with BEGIN and COMMIT, see Tx.
func (s *Store) Transact(ctx context.Context, what string, do func(*Tx) error) error {
	for attempt := 1; ; attempt++ {
		begin := time.Now()
		t, err := s.attempt(ctx, do)
		if err == nil {
			if t.announced {
				s.Announce()
			}
			for _, do := range t.committed {
				do()
			}
			s.tellTraces(ctx, begin, t)
			return nil
		}
		if attempt == tries || !cutShort(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (s *Store) attempt(ctx context.Context, do func(*Tx) error) (*Tx, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release() // closes the connection if a transaction is still open on it
	t := &Tx{store: s, conn: conn.Conn(), Batch: &pgx.Batch{}}
	t.Batch.Queue("BEGIN")
	if err := do(t); err != nil {
		t.rollback()
		return nil, err
	}
	t.Batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errors.New("the transaction was rolled back")
		}
		return nil
	})
	if err := t.Flush(ctx); err != nil {
		t.rollback()
		return nil, err
	}
	return t, nil
}

// Tx is a transaction whose statements gather until one's answer is needed.
type Tx struct {
	Batch     *pgx.Batch // what has gathered
	store     *Store
	conn      *pgx.Conn
	begun     bool
	announced bool // there are entries in the outbox by it
	traced    []tracedMove
	adding    []trace.Span // of items that are added
	committed []func()
}

// Conn is the connection of the transaction, for statements that are not of this package. What
// has gathered is sent first.
func (t *Tx) Conn(ctx context.Context) (*pgx.Conn, error) { return t.conn, t.Flush(ctx) }

// OnCommit has do called after the commit.
func (t *Tx) OnCommit(do func()) { t.committed = append(t.committed, do) }

// Flush sends what has gathered and runs its callbacks.
func (t *Tx) Flush(ctx context.Context) error {
	t.begun = true
	batch := t.Batch
	t.Batch = &pgx.Batch{}
	return t.conn.SendBatch(ctx, batch).Close()
}

func (t *Tx) rollback() {
	if !t.begun || t.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	// Whatever this says, the pool drops connections that are not idle.
	_, _ = t.conn.Exec(ctx, "ROLLBACK")
}

// cutShort tells whether Postgres has ended a transaction for reasons that are
// not its own: deadlock, serialization; or a try that is sure to go better.
func cutShort(err error) bool {
	if errors.Is(err, ErrAgain) {
		return true
	}
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}
