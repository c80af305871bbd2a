package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/retry"
)

// ErrLost is why the context of a term ends when the lead is lost, or may be.
var ErrLost = errors.New("another process may lead")

// Config of a Candidate. The zero value of a field stands for its default.
type Config struct {
	// Name says what is led, for errors and logs; required.
	Name string
	// Key names the lock in its database: candidates for the same lead have the
	// same key. Required.
	Key int64
	// Retry is how soon a candidate asks for the lock again; default 200 ms.
	Retry time.Duration
	// Silence is how long a leader that says nothing keeps the lock, at least 10 ms;
	// default 5 s.
	Silence time.Duration
}

// Candidate leads whenever no other does.
type Candidate struct {
	cfg  Config
	pool *pgxpool.Pool
	log  *slog.Logger
}

// New checks the configuration and starts nothing. While it leads, a candidate
// holds one connection of the pool.
func New(cfg Config, pool *pgxpool.Pool, log *slog.Logger) (*Candidate, error) {
	switch {
	case pool == nil || log == nil:
		return nil, errors.New("leader: a pool and a logger are needed")
	case cfg.Name == "" || cfg.Key == 0:
		return nil, errors.New("leader: Name and Key are needed")
	case cfg.Retry < 0:
		return nil, fmt.Errorf("leader: Retry is %s, and must not be negative", cfg.Retry)
	case cfg.Silence != 0 && cfg.Silence < 10*time.Millisecond:
		return nil, fmt.Errorf("leader: Silence is %s, less than 10 ms", cfg.Silence)
	}
	if cfg.Retry == 0 {
		cfg.Retry = 200 * time.Millisecond
	}
	if cfg.Silence == 0 {
		cfg.Silence = 5 * time.Second
	}
	return &Candidate{cfg: cfg, pool: pool, log: log.With("lead", cfg.Name)}, nil
}

// Term is one time of leading.
type Term struct {
	backend uint32
	key     int64
}

// Lock returns the process id of the Postgres backend that holds the term's lock,
// and the lock's key. Where a statement finds no row by this condition, the term is
// over:
//
//	SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
//	    AND pid = $backend AND (classid::bigint << 32 | objid::bigint) = $key
func (t Term) Lock() (backend int32, key int64) { return int32(t.backend), t.key }

// Run has this process lead whenever there is no other leader, until ctx ends. It
// calls lead for each term, which ends when lead returns, and begins no other term
// before that. Errors of lead and of Postgres are logged, the first of a row as a
// warning, and one in ten minutes after that. A term is a session in the sense of package
// retry: that another process leads is no failure, and ends no row before a minute has
// passed, since it may fail by the same. Run returns nil.
func (c *Candidate) Run(ctx context.Context, lead func(ctx context.Context, term Term) error) error {
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for ctx.Err() == nil {
		err := c.stand(loop.Session(ctx), lead)
		switch {
		case err == nil || ctx.Err() != nil:
		case loop.SessionFailed(err, c.cfg.Retry):
			c.log.Warn("not leading, trying again", "error", err, "retry_in", c.cfg.Retry)
		default:
			c.log.Debug("still not leading", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(c.cfg.Retry):
		}
	}
	return nil
}

// stand leads for one term if the lock is free.
func (c *Candidate) stand(ctx context.Context, lead func(context.Context, Term) error) error {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("connect to lead %s: %w", c.cfg.Name, err)
	}
	defer conn.Release()
	if leads, err := c.ask(ctx, conn, "SELECT pg_try_advisory_lock($1)", c.cfg.Key); err != nil || !leads {
		return err
	}
	// The connection ends with the term, and the lock with the connection.
	defer func() { _ = conn.Conn().Close(context.WithoutCancel(ctx)) }()
	silence := strconv.FormatInt(c.cfg.Silence.Milliseconds(), 10)
	if _, err := c.ask(ctx, conn, "SELECT set_config('idle_session_timeout', $1, false) <> ''", silence); err != nil {
		return err
	}
	return c.serve(ctx, conn, lead)
}

// serve leads for a term, and holds the lock until that has ended.
func (c *Candidate) serve(ctx context.Context, conn *pgxpool.Conn, lead func(context.Context, Term) error) error {
	term, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	var holder sync.WaitGroup
	holder.Go(func() { lose(c.hold(holding, conn)) })
	err := lead(term, Term{backend: conn.Conn().PgConn().PID(), key: c.cfg.Key})
	release()
	holder.Wait()
	if lost := context.Cause(term); errors.Is(lost, ErrLost) && ctx.Err() == nil {
		return lost
	}
	return err
}

// hold asks whether the lock is held until it is not, or ctx ends. Postgres hears
// of this process by that.
func (c *Candidate) hold(ctx context.Context, conn *pgxpool.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(c.cfg.Silence / 5):
		}
		held, err := c.ask(ctx, conn, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted
			AND pid = pg_backend_pid() AND (classid::bigint << 32 | objid::bigint) = $1)`, c.cfg.Key)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", ErrLost, err)
		case !held:
			return ErrLost
		}
	}
}

// ask runs a query that answers yes or no, within the time that a leader has for
// an answer.
func (c *Candidate) ask(ctx context.Context, conn *pgxpool.Conn, sql string, argument any) (yes bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Silence*3/5)
	defer cancel()
	if err := conn.QueryRow(ctx, sql, argument).Scan(&yes); err != nil {
		return false, fmt.Errorf("ask for the lead of %s: %w", c.cfg.Name, err)
	}
	return yes, nil
}
