package uploads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/objects"
)

// States of an export.
const (
	ExportQueued  = "QUEUED"
	ExportRunning = "RUNNING"
	ExportDone    = "DONE"
	ExportFailed  = "FAILED"
)

const (
	// maxExports is how many exports a user may have that have not expired.
	maxExports = 20
	// ExportSilence is how long a process that makes an export may give no sign before another one takes it.
	ExportSilence = 15 * time.Second
	// longestRetry is how long an export that has failed waits at most to be tried again.
	longestRetry = 32 * time.Second
)

// exportDue tells whether an export e may be taken by any process. None has to wait longer than longestRetry, unless
// the clock of Postgres was set back meanwhile.
var exportDue = fmt.Sprintf("(e.due_at <= now() OR e.due_at > now() + interval '%d seconds')",
	(longestRetry+setBackBy)/time.Second)

// ErrNoExport is the error of an export that does not exist, has expired, or is another's.
var ErrNoExport = errors.New("there is no such export")

// Export is a file of the results of a job that is made in the background.
type Export struct {
	ID         uuid.UUID
	Job        uuid.UUID
	Format     string
	Exact      bool
	State      string
	Attempts   int32
	Rows       int64 // written so far
	Total      int64 // rows there are to write; 0: not known yet
	Size       int64
	SHA256     []byte
	LastError  *string
	CreatedAt  time.Time
	FinishedAt *time.Time
	ExpiresAt  *time.Time
}

const exportColumns = `e.id, u.id, e.format, e.exact, e.state, e.attempts, e.rows, e.total, e.size, e.sha256, e.last_error,
	e.created_at, e.finished_at, e.expires_at`

func exportOf(r pgx.CollectableRow) (e Export, err error) {
	err = r.Scan(&e.ID, &e.Job, &e.Format, &e.Exact, &e.State, &e.Attempts, &e.Rows, &e.Total, &e.Size, &e.SHA256,
		&e.LastError, &e.CreatedAt, &e.FinishedAt, &e.ExpiresAt)
	return e, err
}

// BeginExport has the results of a job made into a file. It returns a LimitError where the user of the job has
// too many exports.
func (s *Store) BeginExport(ctx context.Context, who Viewer, id uuid.UUID, format string, exact bool) (e Export, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		j, err := s.get(ctx, tx, who, id)
		if err != nil {
			return err
		}
		// The row stays locked: two that begin at once are counted one after the other.
		if _, err := tx.Exec(ctx, "SELECT FROM millrace.upload_owner WHERE no = $1 FOR UPDATE", j.OwnerNo); err != nil {
			return err
		}
		var have int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM millrace.upload_export
			WHERE owner_no = $1 AND (expires_at IS NULL OR expires_at > now())`, j.OwnerNo).Scan(&have); err != nil {
			return err
		}
		if have >= maxExports {
			return &LimitError{"exports", fmt.Sprintf("%d exports of yours have not expired, and a user may have %d: delete one",
				have, maxExports)}
		}
		rows, _ := tx.Query(ctx, `WITH e AS (INSERT INTO millrace.upload_export (id, job_no, owner_no, format, exact)
			VALUES ($1, $2, $3, $4, $5) RETURNING *)
			SELECT `+exportColumns+" FROM e JOIN millrace.upload AS u ON u.no = e.job_no", uuid.New(), j.No, j.OwnerNo, format, exact)
		e, err = pgx.CollectExactlyOneRow(rows, exportOf)
		return err
	})
	if err != nil {
		return e, fmt.Errorf("begin an export of the upload %s: %w", id, err)
	}
	return e, nil
}

// Exports returns the exports of a job that have not expired, the newest first.
func (s *Store) Exports(ctx context.Context, who Viewer, job uuid.UUID) ([]Export, error) {
	j, err := s.Get(ctx, who, job)
	if err != nil {
		return nil, err
	}
	all, err := s.exports(ctx, `e.job_no = $1 AND (e.expires_at IS NULL OR e.expires_at > now())
		ORDER BY e.created_at DESC, e.id`, j.No)
	if err != nil {
		return nil, fmt.Errorf("list exports of the upload %s: %w", job, err)
	}
	return all, nil
}

// Export returns an export of a job that the viewer may see, or ErrNoExport.
func (s *Store) Export(ctx context.Context, who Viewer, job, id uuid.UUID) (e Export, err error) {
	j, err := s.Get(ctx, who, job)
	if err != nil {
		return e, err
	}
	all, err := s.exports(ctx, "e.job_no = $1 AND e.id = $2 AND (e.expires_at IS NULL OR e.expires_at > now())", j.No, id)
	if err == nil && len(all) == 0 {
		err = ErrNoExport
	}
	if err != nil {
		return e, fmt.Errorf("read the export %s: %w", id, err)
	}
	return all[0], nil
}

func (s *Store) exports(ctx context.Context, where string, args ...any) ([]Export, error) {
	rows, _ := s.pool.Query(ctx, "SELECT "+exportColumns+` FROM millrace.upload_export AS e
		JOIN millrace.upload AS u ON u.no = e.job_no WHERE `+where, args...)
	return pgx.CollectRows(rows, exportOf)
}

// DropExport has an export expire at once.
func (s *Store) DropExport(ctx context.Context, who Viewer, job, id uuid.UUID) error {
	e, err := s.Export(ctx, who, job, id)
	if err != nil {
		return err
	}
	return s.expire(ctx, "id = $1", e.ID)
}

// expire has exports expire at once. A process that makes one of them finds that it is over.
func (s *Store) expire(ctx context.Context, where string, arg any) error {
	_, err := s.pool.Exec(ctx, `UPDATE millrace.upload_export SET expires_at = now(),
		state = CASE WHEN state = 'DONE' THEN state ELSE 'FAILED' END
		WHERE `+where+" AND (expires_at IS NULL OR expires_at > now())", arg)
	if err != nil {
		return fmt.Errorf("expire exports: %w", err)
	}
	return nil
}

// RemoveExports has the exports of a deleted job expire and deletes them. It tells whether some are left, which a
// process makes at present.
func (s *Store) RemoveExports(ctx context.Context, j Job, files *Files) (left bool, err error) {
	if err := s.expire(ctx, "job_no = $1", j.No); err != nil {
		return false, err
	}
	if err := s.sweepExports(ctx, files, "e.job_no = $1 AND "+exportDue, j.No); err != nil {
		return false, err
	}
	err = s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM millrace.upload_export WHERE job_no = $1)", j.No).Scan(&left)
	if err != nil {
		return false, fmt.Errorf("look for exports of the upload %s: %w", j.ID, err)
	}
	return left, nil
}

// ClaimExport takes an export that nobody makes, of the user for whom the fewest are made, and the oldest of these.
func (s *Store) ClaimExport(ctx context.Context) (e Export, claimed bool, err error) {
	rows, _ := s.pool.Query(ctx, `WITH next AS (
			SELECT id FROM millrace.upload_export AS e WHERE state IN ('QUEUED', 'RUNNING') AND `+exportDue+`
			ORDER BY (SELECT count(*) FROM millrace.upload_export AS o
				WHERE o.owner_no = e.owner_no AND o.state = 'RUNNING' AND o.due_at > now()), created_at
			FOR UPDATE SKIP LOCKED LIMIT 1
		), e AS (
			UPDATE millrace.upload_export SET state = 'RUNNING', attempts = attempts + 1, rows = 0, total = 0,
			due_at = now() + make_interval(secs => $1) WHERE id = (SELECT id FROM next) RETURNING *
		) SELECT `+exportColumns+" FROM e JOIN millrace.upload AS u ON u.no = e.job_no", ExportSilence.Seconds())
	e, err = pgx.CollectExactlyOneRow(rows, exportOf)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("look for an export to make: %w", err)
	}
	return e, true, nil
}

// changeExport changes an export for the process that makes it, or returns ErrStopped.
func (s *Store) changeExport(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, e Export, set string, args ...any,
) (owner int32, err error) {
	err = db.QueryRow(ctx, "UPDATE millrace.upload_export SET "+set+
		" WHERE id = $1 AND attempts = $2 AND state = 'RUNNING' RETURNING owner_no", append([]any{e.ID, e.Attempts}, args...)...).
		Scan(&owner)
	if err := dbpool.OrNone(err, ErrStopped); err != nil {
		return 0, fmt.Errorf("change the export %s: %w", e.ID, err)
	}
	return owner, nil
}

// NoteExport notes how far an export is. It returns ErrStopped where it is no longer the caller's.
func (s *Store) NoteExport(ctx context.Context, e Export, rows, total int64) error {
	_, err := s.changeExport(ctx, s.pool, e, "rows = $3, total = $4, due_at = now() + make_interval(secs => $5)", rows, total,
		ExportSilence.Seconds())
	return err
}

// FinishExport notes that the file of an export is stored, and has it expire after a while. It returns a LimitError
// where the exports of the user have too many bytes then.
func (s *Store) FinishExport(ctx context.Context, e Export, stored objects.Stored, rows int64, keep time.Duration) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		owner, err := s.changeExport(ctx, tx, e, `state = 'DONE', rows = $3, total = $3, size = $4, sha256 = $5, last_error = NULL,
			finished_at = now(), due_at = now(), expires_at = now() + make_interval(secs => $6)`, rows, stored.Size,
			stored.SHA256[:], keep.Seconds())
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT FROM millrace.upload_owner WHERE no = $1 FOR UPDATE", owner); err != nil {
			return fmt.Errorf("finish the export %s: %w", e.ID, err)
		}
		var bytes int64
		if err := tx.QueryRow(ctx, `SELECT sum(size) FROM millrace.upload_export
			WHERE owner_no = $1 AND (expires_at IS NULL OR expires_at > now())`, owner).Scan(&bytes); err != nil {
			return fmt.Errorf("finish the export %s: %w", e.ID, err)
		}
		if bytes > s.limits.Bytes {
			return &LimitError{"export_bytes", fmt.Sprintf("your exports would have %d bytes, and those of a user may have %d: "+
				"delete some", bytes, s.limits.Bytes)}
		}
		return nil
	})
}

// FailExport notes why an export has failed. Unless that is final, it is tried again after a while.
func (s *Store) FailExport(ctx context.Context, e Export, text string, final bool, keep time.Duration) error {
	if !final {
		_, err := s.changeExport(ctx, s.pool, e, "state = 'QUEUED', last_error = $3, due_at = now() + make_interval(secs => $4)",
			text, min(float64(int(1)<<min(e.Attempts, 5)), longestRetry.Seconds()))
		return err
	}
	_, err := s.changeExport(ctx, s.pool, e, `state = 'FAILED', last_error = $3, finished_at = now(), due_at = now(),
		expires_at = now() + make_interval(secs => $4)`, text, keep.Seconds())
	return err
}

// SweepExports deletes exports that have expired, and that no process makes any more.
func (s *Store) SweepExports(ctx context.Context, files *Files) error {
	return s.sweepExports(ctx, files, "e.expires_at <= now() AND "+exportDue+" ORDER BY e.expires_at LIMIT 100")
}

func (s *Store) sweepExports(ctx context.Context, files *Files, which string, args ...any) error {
	all, err := s.exports(ctx, which, args...)
	if err != nil {
		return fmt.Errorf("look for exports to delete: %w", err)
	}
	for _, e := range all {
		if err := files.RemoveExport(ctx, e, e.Attempts); err != nil {
			return err
		}
		if _, err := s.pool.Exec(ctx, "DELETE FROM millrace.upload_export WHERE id = $1", e.ID); err != nil {
			return fmt.Errorf("delete the export %s: %w", e.ID, err)
		}
	}
	return nil
}
