package tracking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/setback"
	"github.com/millrace-io/millrace/schemas/shard"
)

// Config shapes the store. The zero value of a field stands for its default.
type Config struct {
	// Sweep is how often expired leases, delays that are over and counters are
	// seen to; default 200 ms.
	Sweep time.Duration
	// Keep is how long finished files stay after their last change; 0: for ever.
	Keep time.Duration
	// Ready is called after a transaction that has made entries in the outbox.
	// It must not block. Nil: whoever reads the outbox finds them by itself.
	Ready func()
	// Queue is where ready items are handed out beside Postgres. Nil: nowhere.
	Queue Queue
}

// Queue is another place that hands ready items out, which has to agree before
// an item is given away here.
type Queue interface {
	// Pull reserves up to limit ready items of a stage. settle has to be called
	// once, and says of each whether the queue is to forget it, since it was
	// started or is not ready any more; the others are free again.
	Pull(ctx context.Context, stage shard.Stage, limit int) (_ []Handed, settle func(forget []bool), err error)
	// Withdraw reserves one item for good. It returns false when somebody
	// else has it already.
	Withdraw(ctx context.Context, stage shard.Stage, id int64, generation int32) (free bool, err error)
}

// Handed is an item that a Queue has reserved.
type Handed struct {
	ID         int64
	Generation int32
}

// Store works on the state. It is safe for concurrent use; the pool is the
// caller's.
type Store struct {
	cfg    Config
	pool   *pgxpool.Pool
	log    *slog.Logger
	folded atomic.Int64 // rows of tally_delta, since they were vacuumed
	oldest ages
	clock  *setback.Clock // of the database; nil before the first sweep
}

// New returns the store on a pool, which Configure has prepared. It asks
// nothing of the database.
func New(cfg Config, pool *pgxpool.Pool, log *slog.Logger) (*Store, error) {
	if pool == nil || log == nil {
		return nil, errors.New("shard tracking: a connection pool and a logger are needed")
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = 200 * time.Millisecond
	}
	return &Store{cfg: cfg, pool: pool, log: log.With("component", "tracking"), oldest: ages{turn: make(chan struct{}, 1)}}, nil
}

// Configure prepares the connections of a pool that a store is to work on.
// Every statement finds few rows by an index. A plan that reads a whole table
// would look as good while the table is small, and be kept while it grows, so
// such plans are off, and no statement becomes slow before statistics catch up.
// A process that stands still in the middle of a transaction, or whose machine
// is gone, keeps the rows it has locked for openWait and no longer.
func Configure(cfg *pgxpool.Config) {
	before := cfg.AfterConnect
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET idle_in_transaction_session_timeout = "+
			strconv.FormatInt(openWait.Milliseconds(), 10))
		return err
	}
}

// openWait is how long a transaction waits for the next word of its process.
const openWait = 10 * time.Second

// Ping asks whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

// Pool is the pool that the store works on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// tries is how often a transaction is begun that Postgres has cut short to let
// another one go on.
const tries = 4

// transact runs do in a transaction and commits it. The first and the last
// statement share their way to the server with BEGIN and COMMIT, see tx.
func (s *Store) transact(ctx context.Context, what string, do func(*tx) error) error {
	for attempt := 1; ; attempt++ {
		announced, err := s.attempt(ctx, do)
		if err == nil {
			if s.cfg.Ready != nil && announced {
				s.cfg.Ready()
			}
			return nil
		}
		if attempt == tries || !cutShort(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (s *Store) attempt(ctx context.Context, do func(*tx) error) (announced bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Release() // closes the connection if a transaction is still open on it
	t := &tx{conn: conn.Conn(), batch: &pgx.Batch{}}
	t.batch.Queue("BEGIN")
	if err := do(t); err != nil {
		t.rollback()
		return false, err
	}
	t.batch.Queue("COMMIT").Exec(func(tag pgconn.CommandTag) error {
		if tag.String() != "COMMIT" {
			return errors.New("the transaction was rolled back")
		}
		return nil
	})
	if err := t.flush(ctx); err != nil {
		t.rollback()
		return false, err
	}
	return t.announced, nil
}

// tx is a transaction whose statements gather until one's answer is needed.
type tx struct {
	conn      *pgx.Conn
	batch     *pgx.Batch
	begun     bool
	announced bool // there are entries in the outbox by it
}

// flush sends what has gathered and runs its callbacks.
func (t *tx) flush(ctx context.Context) error {
	t.begun = true
	batch := t.batch
	t.batch = &pgx.Batch{}
	return t.conn.SendBatch(ctx, batch).Close()
}

func (t *tx) rollback() {
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
	if errors.Is(err, errPurged) {
		return true
	}
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}
