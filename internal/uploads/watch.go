package uploads

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
)

// States of a file in a watched place.
const (
	WatchWaiting = "WAITING" // until it does not change any more, or is tried again
	WatchTaken   = "TAKEN"
	WatchSame    = "SAME"   // its content was taken before
	WatchFailed  = "FAILED" // until it changes
)

// ErrTaken is the error of a file whose content was taken from its place before.
var ErrTaken = errors.New("a file with this content was taken before")

// Origin is where a file was taken from.
type Origin struct{ Place, Path string }

// Listed is a file as a listing of its place has it.
type Listed struct {
	Path, Fingerprint string
	Whole             bool // it is never half written
}

// Watched is what is known of a file in a watched place.
type Watched struct {
	Origin
	State     string
	Upload    *uuid.UUID
	LastError *string
	SeenAt    time.Time
}

// Look notes what a place has, and returns the paths of files that are to be taken: those that have not been taken, and
// have not changed for a while. It also returns how many others wait.
func (s *Store) Look(
	ctx context.Context, place string, all []Listed, settle time.Duration,
) (due []string, waiting int, err error) {
	paths, prints, waits := make([]string, len(all)), make([]string, len(all)), make([]float64, len(all))
	for i, f := range all {
		if paths[i], prints[i] = f.Path, f.Fingerprint; !f.Whole {
			waits[i] = settle.Seconds()
		}
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM millrace.upload_watched WHERE place = $1 AND path <> ALL ($2)", place, paths)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO millrace.upload_watched AS w (place, path, fingerprint, due_at)
			SELECT $1, path, print, now() + make_interval(secs => wait)
			FROM unnest($2::text[], $3::text[], $4::float8[]) AS f (path, print, wait)
			ON CONFLICT (place, path) DO UPDATE SET fingerprint = excluded.fingerprint, state = 'WAITING', last_error = NULL,
			upload = NULL, attempts = 0, seen_at = now(), due_at = excluded.due_at
			WHERE w.fingerprint <> excluded.fingerprint`, place, paths, prints, waits); err != nil {
			return err
		}
		// None waits for longer, unless the clock was set back meanwhile.
		rows, err := tx.Query(ctx, `SELECT path, due_at <= now() OR due_at > now() + make_interval(secs => $4 +
				CASE attempts WHEN 0 THEN $2 ELSE least(2 ^ least(attempts, 20), $3) END)
			FROM millrace.upload_watched WHERE place = $1 AND state = 'WAITING' ORDER BY seen_at, path`,
			place, settle.Seconds(), slowestTake.Seconds(), setBackBy.Seconds())
		if err != nil {
			return err
		}
		var path string
		var now bool
		_, err = pgx.ForEachRow(rows, []any{&path, &now}, func() error {
			if now {
				due = append(due, path)
			} else {
				waiting++
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("note the files of %s: %w", place, err)
	}
	return due, waiting, nil
}

// Away notes that a place cannot be listed.
func (s *Store) Away(ctx context.Context, place, text string) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO millrace.upload_watched (place, path, fingerprint, state, last_error)
		VALUES ($1, '', '', 'FAILED', $2) ON CONFLICT (place, path) DO UPDATE SET last_error = excluded.last_error`, place, text)
	if err != nil {
		return fmt.Errorf("note that %s cannot be listed: %w", place, err)
	}
	return nil
}

// take notes that the content of a file is taken, or returns ErrTaken.
func (o Origin) take(ctx context.Context, tx pgx.Tx, id uuid.UUID, sha256 []byte) error {
	tag, err := tx.Exec(ctx, `INSERT INTO millrace.upload_taken (place, sha256, path, upload) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, o.Place, sha256, o.Path, id)
	if err == nil && tag.RowsAffected() == 0 {
		return ErrTaken
	}
	if err == nil {
		_, err = tx.Exec(ctx, "UPDATE millrace.upload_watched SET state = 'TAKEN', upload = $3, last_error = NULL WHERE place = $1 AND path = $2",
			o.Place, o.Path, id)
	}
	return err
}

// slowestTake is how long a file that could not be taken waits at most to be tried again.
const slowestTake = 10 * time.Minute

// NotTaken notes why a file was not taken. One that is WAITING is tried again after a while.
func (s *Store) NotTaken(ctx context.Context, o Origin, state string, text *string) error {
	_, err := s.pool.Exec(ctx, `UPDATE millrace.upload_watched SET state = $3, last_error = $4, attempts = attempts + 1,
		due_at = now() + least(make_interval(secs => 2 ^ least(attempts, 20)), make_interval(secs => $5))
		WHERE place = $1 AND path = $2`, o.Place, o.Path, state, text, slowestTake.Seconds())
	if err != nil {
		return fmt.Errorf("note that %s of %s is not taken: %w", o.Path, o.Place, err)
	}
	return nil
}

// WatchedFiles returns files in watched places, first those that failed; state empty: all.
func (s *Store) WatchedFiles(ctx context.Context, state string, limit int) ([]Watched, error) {
	rows, _ := s.pool.Query(ctx, `SELECT place, path, state, upload, last_error, seen_at FROM millrace.upload_watched
		WHERE $1 = '' OR state = $1 ORDER BY state <> 'FAILED', last_error IS NULL, seen_at DESC, place, path LIMIT $2`, state, limit)
	return dbpool.Collect(rows, func(r pgx.CollectableRow) (w Watched, err error) {
		err = r.Scan(&w.Place, &w.Path, &w.State, &w.Upload, &w.LastError, &w.SeenAt)
		return w, err
	}, "list files of watched places")
}

// scanLock is the class of the advisory locks of who looks at a watched place.
const scanLock int64 = 0x75706c64_7363616e

// Looks keeps locks of watched places, on one connection for all of them, and on none while it waits: who is at work needs
// some. It is safe for concurrent use, at one place each time.
type Looks struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	conn *pgxpool.Conn // has the locks; nil: there are none
	held int
}

// Looks returns a keeper of locks.
func (s *Store) Looks() *Looks { return &Looks{pool: s.pool} }

// At does something about a place while nobody else does it in any process. It waits for its turn.
func (l *Looks) At(ctx context.Context, place string, do func() error) error {
	for {
		alone, err := l.lock(ctx, place)
		if err != nil {
			return fmt.Errorf("look at %s: %w", place, err)
		}
		if alone {
			defer l.unlock(ctx, place)
			return do()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another look at %s: %w", place, context.Cause(ctx))
		case <-time.After(lookRetry):
		}
	}
}

const lookRetry = 100 * time.Millisecond

func (l *Looks) lock(ctx context.Context, place string) (alone bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn == nil {
		if l.conn, err = l.pool.Acquire(ctx); err != nil {
			return false, err
		}
	}
	if alone, err = l.ask(ctx, "pg_try_advisory_lock", place); alone {
		l.held++
	} else if l.held == 0 {
		l.release()
	}
	return alone, err
}

// unlock also gives up the locks of other places where it fails, as their keeper does whose connection breaks: what is
// taken is taken once nevertheless.
func (l *Looks) unlock(ctx context.Context, place string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if unlocked, err := l.ask(ctx, "pg_advisory_unlock", place); err != nil || !unlocked {
		_ = l.conn.Conn().Close(ctx)
	}
	if l.held--; l.held == 0 {
		l.release()
	}
}

func (l *Looks) release() {
	l.conn.Release()
	l.conn = nil
}

// ask does not end with ctx: that would close the connection, and end the locks of other places.
func (l *Looks) ask(ctx context.Context, function, place string) (yes bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err = l.conn.QueryRow(ctx, "SELECT "+function+"(hashtextextended($1, $2))", place, scanLock).Scan(&yes)
	return yes, err
}
