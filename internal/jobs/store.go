package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/acts"
)

// ErrNotFound is the error of a job, or of a source, that does not exist.
var ErrNotFound = errors.New("there is no such job")

// Config shapes a store. The zero value of a field stands for its default.
type Config struct {
	// Manual leaves sources without a job, until jobs are migrated; those that have one
	// keep it. Default false.
	Manual bool
	// Patience is how long an event waits for the creation of its source; default 8 s.
	Patience time.Duration
}

// Store keeps jobs. It is safe for concurrent use; the pool is the caller's.
type Store struct {
	cfg  Config
	pool *pgxpool.Pool
}

// New returns a store. It asks nothing of the database.
func New(cfg Config, pool *pgxpool.Pool) (*Store, error) {
	if pool == nil {
		return nil, errors.New("jobs: a connection pool is needed")
	}
	if cfg.Patience == 0 {
		cfg.Patience = 8 * time.Second
	}
	return &Store{cfg, pool}, nil
}

// Pool is the pool that the store works on.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// change is a transaction that changes jobs.
type change struct {
	acts.Tx
	now     time.Time   // of the database, when the transaction began
	room    int         // how many more jobs may run soon after they are made or enabled
	batch   pgx.Batch   // what is written before the commit, and then:
	ended   []uuid.UUID // jobs whose schedule ends
	endedAt []time.Time
	// rows that are made
	begun, settings, statuses, states [][]any
}

// atOnce is how many jobs may run soon within a minute after they were made or enabled. The
// others are spread over their intervals, so that sources which are imported together are not
// due together ever after.
const atOnce = 10

const beginSQL = `SELECT now(), $1 - (SELECT count(*) FROM (
	SELECT FROM millrace.job_schedule
	WHERE reason IN ('created', 'enabled') AND from_at > now() - interval '1 minute' LIMIT $1) AS t)`

// soon tells whether a job that is made or enabled may run soon.
func (c *change) soon() bool {
	c.room--
	return c.room >= 0
}

// write writes what has gathered. Rows that are made come last: some take the place of
// rows that go.
func (c *change) write(ctx context.Context) error {
	if len(c.ended) > 0 {
		c.batch.Queue(`UPDATE millrace.job_schedule AS s SET to_at = GREATEST(s.from_at, u.at)
			FROM unnest($1::uuid[], $2::timestamptz[]) AS u (job_id, at)
			WHERE s.job_id = u.job_id AND s.to_at IS NULL`, c.ended, c.endedAt)
	}
	if err := c.SendBatch(ctx, &c.batch).Close(); err != nil {
		return err
	}
	for _, made := range []struct {
		table   string
		columns []string
		rows    [][]any
	}{
		{"source_state", stateColumns, c.states},
		{"job_settings", settingsColumns, c.settings},
		{"job_status", statusColumns, c.statuses},
		{"job_schedule", scheduleColumns, c.begun},
	} {
		if len(made.rows) == 0 {
			continue
		}
		_, err := c.CopyFrom(ctx, pgx.Identifier{"millrace", made.table}, made.columns, pgx.CopyFromRows(made.rows))
		if err != nil {
			return err
		}
	}
	return nil
}

// tries is how often a transaction is begun that Postgres has cut short to let another
// one go on, or that has met another one which made the same row.
const tries = 5

// transact commits what do does.
func (s *Store) transact(ctx context.Context, what string, do func(*change) error) error {
	for attempt := 1; ; attempt++ {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return within(ctx, tx, do) })
		if err == nil {
			return nil
		}
		if attempt == tries || !cutShort(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// within does what do does in a transaction of the caller's.
func within(ctx context.Context, tx acts.Tx, do func(*change) error) error {
	c := &change{Tx: tx}
	if err := tx.QueryRow(ctx, beginSQL, atOnce).Scan(&c.now, &c.room); err != nil {
		return err
	}
	c.now = c.now.UTC()
	if err := do(c); err != nil {
		return err
	}
	return c.write(ctx)
}

// cutShort tells whether a transaction will go better when it is tried again:
// deadlock, serialization, or a row that another one has just made.
func cutShort(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001" || e.Code == "23505")
}

// byID has the records of jobs by a key.
func byID(all []*record, key func(*record) uuid.UUID) map[uuid.UUID]*record {
	m := make(map[uuid.UUID]*record, len(all))
	for _, r := range all {
		m[key(r)] = r
	}
	return m
}
