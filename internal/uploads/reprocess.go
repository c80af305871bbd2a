package uploads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/uploads"
)

// Reprocess says which items of a job are to be processed again.
type Reprocess struct {
	Statuses []uploads.Status // final ones
	Rows     []int32          // nil: all rows
	// Reset begins attempts anew. Else items that are ERROR or NOT_FOUND need to have attempts left.
	Reset bool
}

// Bounds of a reprocess: of the items of one transaction, and of all.
const (
	reprocessBatch = 10_000
	MaxReprocess   = 1_000_000
)

// Attempts bound how often an item is processed that ends so, until somebody resets them. The zero value
// of a field stands for its default.
type Attempts struct {
	Error    int // default 5
	NotFound int // default 2
}

func (a Attempts) withDefaults() (Attempts, error) {
	if a.Error == 0 {
		a.Error = 5
	}
	if a.NotFound == 0 {
		a.NotFound = 2
	}
	if a.Error < 1 || a.NotFound < 1 || a.Error > maxAttempts || a.NotFound > maxAttempts {
		return a, fmt.Errorf("uploads: want 1 to %d attempts of an item", maxAttempts)
	}
	return a, nil
}

// maxAttempts is within what an item can count.
const maxAttempts = 10_000

// of is how often an item may be processed that is to leave a status; 0: any number.
func (a Attempts) of(status uploads.Status) int32 {
	switch status {
	case uploads.Error:
		return int32(a.Error)
	case uploads.NotFound:
		return int32(a.NotFound)
	}
	return 0
}

// Reprocess makes final items of a job PENDING again, some in each transaction, until there are no more,
// MaxReprocess are, or the end has come. It returns how many, and whether there may be more. After an
// error, those that it returns stay as they are.
func (s *Store) Reprocess(ctx context.Context, who Viewer, id uuid.UUID, r Reprocess, end time.Time) (n int, more bool, err error) {
	for after := int32(0); ; {
		moved, upto, err := s.reprocess(ctx, who, id, r, after)
		n += moved
		switch {
		case err != nil:
			return n, true, fmt.Errorf("reprocess items of the upload %s: %w", id, err)
		case upto == 0:
			s.awake()
			return n, false, nil
		case n >= MaxReprocess || !time.Now().Before(end):
			s.awake()
			return n, true, nil
		}
		after = upto
	}
}

// reprocess makes the next items behind a row PENDING, and returns how many, and the last row; 0: there
// are no more.
func (s *Store) reprocess(
	ctx context.Context, who Viewer, id uuid.UUID, r Reprocess, after int32,
) (moved int, upto int32, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var at time.Time
		j, err := jobOf(tx.QueryRow(ctx, `WITH u AS (UPDATE millrace.upload AS u SET changed_at = `+nextChange+`
				FROM millrace.upload_owner AS o WHERE o.no = u.owner_no AND u.id = $1 AND ($2 OR o.subject = $3)
				AND u.received_at IS NOT NULL AND u.deleted_at IS NULL RETURNING u.*)
			SELECT u.changed_at, `+columns+" FROM u JOIN millrace.upload_owner AS o ON o.no = u.owner_no",
			id, who.All, who.Subject), &at)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return err
		case j.CancelledAt != nil:
			return &StateError{j.State, "the upload must not be cancelled"}
		}
		rows, counts, err := s.toReprocess(ctx, tx, j, r, after)
		if err != nil || len(rows) == 0 {
			return err
		}
		moved, upto = len(rows), rows[len(rows)-1]
		return again(ctx, tx, j, rows, counts, r.Reset, at)
	})
	return moved, upto, err
}

// toReprocess returns the next rows behind a row, and how many of them have each status. The job is locked.
func (s *Store) toReprocess(
	ctx context.Context, tx pgx.Tx, j Job, r Reprocess, after int32,
) (nos []int32, counts [6]int32, err error) {
	most := make([]int32, len(r.Statuses))
	for i, status := range r.Statuses {
		if !r.Reset {
			most[i] = s.attempts.of(status)
		}
	}
	var both pgx.Batch
	both.Queue(walking)
	both.Queue(`SELECT i.row_no, i.status FROM unnest($2::smallint[], $3::integer[]) AS s (status, most), LATERAL (
			SELECT row_no, status FROM millrace.upload_item
			WHERE job_no = $1 AND (status, row_no) > (s.status, $4) AND status <= s.status
			AND (s.most = 0 OR attempts < s.most) AND ($6::integer[] IS NULL OR row_no = ANY ($6)) ORDER BY status, row_no LIMIT $5
		) AS i ORDER BY row_no LIMIT $5`, j.No, numbers(r.Statuses), most, after, reprocessBatch, r.Rows).
		Query(func(rows pgx.Rows) error {
			var no int32
			var status uploads.Status
			_, err := pgx.ForEachRow(rows, []any{&no, &status}, func() error {
				nos = append(nos, no)
				counts[status]++
				return nil
			})
			return err
		})
	return nos, counts, tx.SendBatch(ctx, &both).Close()
}

// again makes rows PENDING, and has the job go on.
func again(ctx context.Context, tx pgx.Tx, j Job, rows []int32, counts [6]int32, reset bool, at time.Time) error {
	var both pgx.Batch
	both.Queue(`UPDATE millrace.upload_item SET status = 0, attempts = CASE WHEN $4 THEN 0 ELSE attempts END,
		item_id = NULL, due_at = NULL,
		version = version + 1, updated_at = $3 WHERE job_no = $1 AND row_no = ANY ($2)`, j.No, rows, at, reset)
	both.Queue(`UPDATE millrace.upload SET pending = pending + $2, done = done - $3, error = error - $4,
		not_found = not_found - $5, skipped = skipped - $6, finished_at = NULL, last_error = NULL,
		queue_state = CASE queue_state WHEN 'DONE' THEN 'QUEUED' ELSE queue_state END WHERE no = $1`,
		j.No, len(rows), counts[uploads.StatusDone], counts[uploads.Error], counts[uploads.NotFound], counts[uploads.Skipped])
	return tx.SendBatch(ctx, &both).Close()
}
