package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/item"
)

// sweepLimit is how many items one transaction of the sweeper moves.
const sweepLimit = 1000

// Run sweeps until ctx ends. Any number of processes may run it on the same
// database. While the database is away it tries again at the next turn.
func (s *Store) Run(ctx context.Context) error {
	return retry.Poll{
		Every:  s.cfg.Sweep,
		Failed: retry.Warn(s.log, "leases, delays and counters wait for Postgres"),
		Well:   func() { s.log.Info("leases, delays and counters are seen to again") },
	}.Run(ctx, func(ctx context.Context) (more bool, err error) { return false, s.Sweep(ctx) })
}

// Sweep does once what Run does at every turn: it gives back what has an
// expired lease, queues what has been delayed long enough, and folds counters.
// It is for one goroutine at a time.
func (s *Store) Sweep(ctx context.Context) error {
	var now time.Time
	var expired, due, added bool
	err := s.pool.QueryRow(ctx, `SELECT clock_timestamp(),
		EXISTS (SELECT FROM millrace.claim WHERE lease_until <= now()),
		EXISTS (SELECT FROM millrace.delayed WHERE due_at <= now()),
		EXISTS (SELECT FROM millrace.tally_delta)`).Scan(&now, &expired, &due, &added)
	if err != nil {
		return fmt.Errorf("look for leases and delays that are over: %w", err)
	}
	if err := s.heedClock(ctx, now); err != nil {
		return err
	}
	if expired {
		if err := s.everywhere(ctx, sqlExpired, s.expire); err != nil {
			return err
		}
	}
	if due {
		if err := s.everywhere(ctx, sqlDue, s.undelay); err != nil {
			return err
		}
	}
	// What these steps have added may have to wait for the next turn.
	if added {
		return s.fold(ctx)
	}
	return nil
}

// setBackBy is by how much the database's clock may be set back without notice:
// leases and delays last for as much longer.
const setBackBy = 10 * time.Second

// heedClock has leases and delays begin anew whose begin lies in the future, when
// the clock has been set back, or may have been before the first sweep.
func (s *Store) heedClock(ctx context.Context, now time.Time) error {
	first := s.clock == nil
	if first {
		s.clock = new(ServerClock)
	}
	if back := s.clock.SetBack(now, setBackBy); !back && !first {
		return nil
	}
	for _, table := range []struct{ name, until string }{{"claim", "lease_until"}, {"delayed", "due_at"}} {
		tag, err := s.pool.Exec(ctx,
			strings.NewReplacer("{table}", table.name, "{until}", table.until).Replace(text("anew")), setBackBy)
		if err != nil {
			s.clock = nil // in the next turn
			return fmt.Errorf("begin leases and delays anew: %w", err)
		}
		if n := tag.RowsAffected(); n > 0 {
			s.log.Warn("the clock of Postgres was set back: what began in the future begins anew",
				"table", table.name, "items", n)
		}
	}
	return nil
}

// everywhere makes a step in every queue that a small table has due rows of,
// until nothing is left.
func (s *Store) everywhere(ctx context.Context, due string, step func(context.Context, ID) (int, error)) error {
	rows, _ := s.pool.Query(ctx, due)
	queues, err := pgx.CollectRows(rows, pgx.RowTo[ID])
	if err != nil {
		return fmt.Errorf("look for queues with leases and delays that are over: %w", err)
	}
	for _, q := range queues {
		for n := sweepLimit; n == sweepLimit; {
			var err error
			if n, err = step(ctx, q); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	sqlExpired = "SELECT DISTINCT stage FROM millrace.claim WHERE lease_until <= now()"
	sqlDue     = "SELECT DISTINCT stage FROM millrace.delayed WHERE due_at <= now()"
)

// expire gives back items whose lease has ended.
func (s *Store) expire(ctx context.Context, q ID) (found int, err error) {
	err = s.Transact(ctx, fmt.Sprintf("expire leases of queue %d", q), func(t *Tx) error {
		w, err := t.Work(q, item.Expire)
		if err != nil {
			return err
		}
		if found, err = w.find(ctx, w.sql.expire); found == 0 || err != nil {
			return err
		}
		commands, err := w.expired(ctx)
		if err != nil || len(commands) == 0 {
			return err
		}
		_, err = w.Apply(ctx, commands)
		return err
	})
	return found, err
}

// find reads the rows that a sweep is about.
func (w *Work) find(ctx context.Context, query string) (found int, err error) {
	collect(w.Batch, &w.rows, query, w.queue, sweepLimit)
	err = w.read(ctx)
	return len(w.rows), err
}

// expired asks which of the claims are still expired, now that the items are
// locked: a lease may have been extended just before. It locks the claims, so
// that none is extended from here on.
func (w *Work) expired(ctx context.Context) (commands []Command, err error) {
	ids := make([]int64, len(w.rows))
	for i, r := range w.rows {
		ids[i] = r.id
	}
	w.Batch.Queue(`SELECT item_id, generation FROM millrace.claim
		WHERE stage = $1 AND item_id = ANY ($2::bigint[]) AND lease_until <= now() ORDER BY item_id
		FOR UPDATE`, w.queue, ids).
		Query(func(rows pgx.Rows) error {
			commands, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (Command, error) {
				c := Command{Error: "the lease has expired"}
				return c, r.Scan(&c.ID, &c.Generation)
			})
			return err
		})
	return commands, w.Flush(ctx)
}

// undelay puts items into the queue whose delay is over.
func (s *Store) undelay(ctx context.Context, q ID) (found int, err error) {
	err = s.Transact(ctx, fmt.Sprintf("end delays of queue %d", q), func(t *Tx) error {
		w, err := t.Work(q, item.Retry)
		if err != nil {
			return err
		}
		if found, err = w.find(ctx, w.sql.due); found == 0 || err != nil {
			return err
		}
		due, err := w.undelayed(ctx)
		if err == nil && len(due.ids) > 0 {
			w.announce(q, due)
		}
		return err
	})
	return found, err
}

// undelayed takes items out of delayed and returns those that stood there.
// Another process may have seen to one before it could be locked: that leaves
// no trace on the row that is locked.
func (w *Work) undelayed(ctx context.Context) (due places, err error) {
	ids := make([]int64, len(w.rows))
	at := make(map[int64]*row, len(w.rows))
	for i := range w.rows {
		ids[i], at[w.rows[i].id] = w.rows[i].id, &w.rows[i]
	}
	w.Batch.Queue(sqlUndelay, w.queue, ids).Query(func(rows pgx.Rows) error {
		gone, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		for _, id := range gone {
			due.add(change{row: at[id]}, at[id].state.Generation)
		}
		return err
	})
	err = w.Flush(ctx)
	return due, err
}

// foldLimit is how many rows one statement folds.
const foldLimit = 50_000

// fold adds what transactions have added to the counters up.
func (s *Store) fold(ctx context.Context) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("fold counters: %w", err)
	}
	defer conn.Release()
	tag, err := conn.Exec(ctx, text("fold"), lockClass, foldLimit)
	if err != nil {
		return fmt.Errorf("fold counters: %w", err)
	}
	// The table is read as a whole, so what is dead in it has to go.
	if s.folded.Add(tag.RowsAffected()) > 2000 {
		s.folded.Store(0)
		if _, err := conn.Exec(ctx, "VACUUM (SKIP_LOCKED, INDEX_CLEANUP OFF) millrace.tally_delta"); err != nil {
			return fmt.Errorf("vacuum counters: %w", err)
		}
	}
	return nil
}
