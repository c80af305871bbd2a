package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/schemas/uploads"
)

// Task names a job that there is something to do for.
type Task struct{ No, OwnerNo int32 }

// Tasks returns jobs that there is something to do for, the oldest first. Rows that are in a queue, or wait for it,
// need none of it.
func (s *Store) Tasks(ctx context.Context, limit int) ([]Task, error) {
	rows, _ := s.pool.Query(ctx, `SELECT no, owner_no FROM millrace.upload
		WHERE deleted_at IS NOT NULL OR received_at IS NOT NULL AND queue_state IN ('QUEUED', 'RUNNING')
		AND (processor = 'copy' OR NOT read_all OR cancelled_at IS NOT NULL OR pending + processing = 0)
		ORDER BY no LIMIT $1`, limit)
	return dbpool.Collect(rows, pgx.RowToStructByPos[Task], "look for uploads to work on")
}

// Start begins work on a job. It returns ErrStopped where there is none to do.
func (s *Store) Start(ctx context.Context, no int32) (Job, error) {
	var j Job
	err := s.note(ctx, func(b *pgx.Batch) {
		b.Queue(`WITH u AS (UPDATE millrace.upload SET
				queue_state = CASE WHEN deleted_at IS NULL THEN 'RUNNING' ELSE queue_state END, attempts = attempts + 1,
				started_at = coalesce(started_at, now()), last_heartbeat = now()
				WHERE no = $1 AND (deleted_at IS NOT NULL OR received_at IS NOT NULL AND queue_state IN ('QUEUED', 'RUNNING'))
				RETURNING *)
			SELECT `+columns+" FROM u JOIN millrace.upload_owner AS o ON o.no = u.owner_no", no).
			QueryRow(func(r pgx.Row) (err error) {
				j, err = jobOf(r)
				return err
			})
	})
	if err := dbpool.OrNone(err, ErrStopped); err != nil {
		return j, fmt.Errorf("start work on an upload: %w", err)
	}
	return j, nil
}

// note runs statements in a transaction that does not wait until it is on disk: beside a large upload that would take until
// what the upload has written is there, too. A crash of Postgres may undo them, with all that was committed later, and then they
// are run again.
func (s *Store) note(ctx context.Context, do func(*pgx.Batch)) error {
	var b pgx.Batch // is a transaction
	b.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	do(&b)
	return s.pool.SendBatch(ctx, &b).Close()
}

// Input is a row that is to be persisted.
type Input struct {
	No   int32
	JSON []byte // a list of cells, or an object
}

// Reject is a row that breaks a rule.
type Reject struct {
	No          int32
	Line        int64
	Code, Error string
	Content     []byte
}

// Rows are those of a batch: all that were read behind row After, up to Upto.
type Rows struct {
	After, Upto int32
	Items       []Input
	Images      []RowImage // of items
	Rejects     []Reject
	// Done has each item be its own result: it is DONE with the transaction that persists it.
	Done bool
}

// Append persists a batch in one transaction, and returns ErrStopped where the job has gone on without
// it or is not to be worked on (1).
func (s *Store) Append(ctx context.Context, j Job, b Rows) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// What is wide comes first, while nothing is locked.
		if err := copyInputs(ctx, tx, j.No, b.Items); err != nil {
			return err
		}
		if err := copyImages(ctx, tx, j.No, b.Images); err != nil {
			return err
		}
		if err := copyRejects(ctx, tx, j.No, b.Rejects); err != nil {
			return err
		}
		var at time.Time
		err := tx.QueryRow(ctx, `UPDATE millrace.upload SET read_rows = $3,
			pending = pending + CASE WHEN $6 THEN 0 ELSE $4 END, done = done + CASE WHEN $6 THEN $4 ELSE 0 END,
			rejected = rejected + $5, changed_at = `+nextChange+`, last_heartbeat = clock_timestamp()
			WHERE no = $1 AND read_rows = $2 AND queue_state = 'RUNNING' AND NOT read_all AND cancelled_at IS NULL
			AND deleted_at IS NULL RETURNING changed_at`, j.No, b.After, b.Upto, len(b.Items), len(b.Rejects), b.Done).Scan(&at)
		if err := dbpool.OrNone(err, ErrStopped); err != nil {
			return err
		}
		return s.addItems(ctx, tx, j, b, at)
	})
	if err != nil {
		return fmt.Errorf("persist the rows %d to %d of the upload %s: %w", b.After+1, b.Upto, j.ID, err)
	}
	return nil
}

// nextChange is the time of a change, behind that of the last one (3). The transaction has its id before
// it takes the time: whoever sees no transaction under way sees all changes before now, or later ones.
const nextChange = `CASE WHEN pg_current_xact_id() IS NOT NULL
	THEN greatest(clock_timestamp(), changed_at + interval '1 microsecond') END`

func copyInputs(ctx context.Context, tx pgx.Tx, no int32, items []Input) error {
	if len(items) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"millrace", "upload_row"}, []string{"job_no", "row_no", "input"},
		pgx.CopyFromSlice(len(items), func(i int) ([]any, error) {
			return []any{no, items[i].No, json.RawMessage(items[i].JSON)}, nil
		}))
	return err
}

func copyRejects(ctx context.Context, tx pgx.Tx, no int32, rejects []Reject) error {
	if len(rejects) == 0 {
		return nil
	}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"millrace", "upload_reject"},
		[]string{"job_no", "row_no", "line", "code", "error", "content"},
		pgx.CopyFromSlice(len(rejects), func(i int) ([]any, error) {
			r := rejects[i]
			return []any{no, r.No, r.Line, r.Code, r.Error, r.Content}, nil
		}))
	return err
}

// addItems adds the narrow rows, and counts all for the user.
func (s *Store) addItems(ctx context.Context, tx pgx.Tx, j Job, b Rows, at time.Time) error {
	numbers := make([]int32, len(b.Items))
	for i, item := range b.Items {
		numbers[i] = item.No
	}
	status, attempts := uploads.Pending, 0
	if b.Done {
		status, attempts = uploads.StatusDone, 1
	}
	var both pgx.Batch
	both.Queue(`INSERT INTO millrace.upload_item (job_no, row_no, owner_no, status, attempts, updated_at)
		SELECT $1, row_no, $2, $5, $6, $3 FROM unnest($4::integer[]) AS row_no`, j.No, j.OwnerNo, at, numbers, int16(status), attempts)
	both.Queue("UPDATE millrace.upload_owner SET rows = rows + $2 WHERE no = $1 RETURNING rows", j.OwnerNo, b.Upto-b.After).
		QueryRow(func(r pgx.Row) error {
			var rows int64
			if err := r.Scan(&rows); err != nil {
				return err
			}
			if rows > s.limits.Rows {
				return &LimitError{"rows", fmt.Sprintf("the uploads of a user may have %d rows: delete some, and resume this one",
					s.limits.Rows)}
			}
			return nil
		})
	return tx.SendBatch(ctx, &both).Close()
}

// Describe notes the header of a job's file, and which column names images.
func (s *Store) Describe(ctx context.Context, j Job, header []string) error {
	var text *string
	encoded, err := json.Marshal(header)
	if encoded := string(encoded); header != nil {
		text = &encoded
	}
	if err == nil {
		err = s.note(ctx, func(b *pgx.Batch) {
			b.Queue("UPDATE millrace.upload SET header = $2, image_column = $3 WHERE no = $1", j.No, text, ImageColumnOf(j))
		})
	}
	if err != nil {
		return fmt.Errorf("describe the upload %s: %w", j.ID, err)
	}
	return nil
}

// EndRead notes that all rows up to one are persisted, and how many a second, which is also the rate of the processor copy.
func (s *Store) EndRead(ctx context.Context, j Job, upto int32, rowsSec float64) error {
	ended := int64(0)
	err := s.note(ctx, func(b *pgx.Batch) {
		b.Queue(`UPDATE millrace.upload SET read_all = true, rows_sec = $3, last_heartbeat = now(),
			items_sec = CASE WHEN processor = 'copy' THEN $3 ELSE items_sec END
			WHERE no = $1 AND read_rows = $2 AND queue_state = 'RUNNING' AND deleted_at IS NULL`, j.No, upto, rowsSec).
			Exec(func(tag pgconn.CommandTag) error {
				ended = tag.RowsAffected()
				return nil
			})
	})
	if err == nil && ended == 0 {
		err = ErrStopped
	}
	if err != nil {
		return fmt.Errorf("end the persisting of the upload %s: %w", j.ID, err)
	}
	return nil
}

// Moved is what became of a move: how many items, up to which row, and how many are pending yet.
type Moved struct{ Items, Upto, Left int32 }

// Move moves up to limit pending items behind a row to a final status in one transaction, the first ones
// first. Those that a processor has worked on have one more attempt. Whoever has moved the items up to a
// row goes on behind it: an index still has what was moved from there, until it is vacuumed.
func (s *Store) Move(ctx context.Context, j Job, to uploads.Status, after int32, limit int) (moved Moved, err error) {
	worked := 0
	if to != uploads.Skipped {
		worked = 1
	}
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var at time.Time
		err := tx.QueryRow(ctx, `UPDATE millrace.upload SET changed_at = `+nextChange+`, last_heartbeat = clock_timestamp()
			WHERE no = $1 AND queue_state = 'RUNNING' AND (cancelled_at IS NULL OR $2) AND deleted_at IS NULL
			RETURNING changed_at`, j.No, to == uploads.Skipped).Scan(&at)
		if err := dbpool.OrNone(err, ErrStopped); err != nil {
			return err
		}
		column := map[uploads.Status]string{uploads.StatusDone: "done", uploads.Skipped: "skipped"}[to]
		// A range, and no join: before statistics know the job, a join begins at the wrong end.
		return tx.QueryRow(ctx, `WITH moved AS (
				UPDATE millrace.upload_item SET status = $2, attempts = attempts + $5, due_at = NULL, version = version + 1, updated_at = $3
				WHERE job_no = $1 AND status = 0 AND row_no > $6 AND row_no <= (SELECT max(row_no) FROM (
					SELECT row_no FROM millrace.upload_item WHERE job_no = $1 AND status = 0 AND row_no > $6
					ORDER BY row_no LIMIT $4
				) AS next) RETURNING row_no
			), n AS (SELECT count(*)::integer AS n, coalesce(max(row_no), 0) AS upto FROM moved)
			UPDATE millrace.upload SET pending = pending - n.n, `+column+` = `+column+` + n.n
			FROM n WHERE no = $1 RETURNING n.n, n.upto, pending`, j.No, int16(to), at, limit, worked, after).
			Scan(&moved.Items, &moved.Upto, &moved.Left)
	})
	if err != nil {
		return Moved{}, fmt.Errorf("move items of the upload %s to %s: %w", j.ID, to, err)
	}
	return moved, nil
}

// itemsRate is how many items a second a job has processed that is done, the first time.
const itemsRate = `CASE WHEN u.items_sec > 0 THEN u.items_sec
	ELSE (u.read_rows - u.rejected) / greatest(extract(epoch FROM clock_timestamp() - u.started_at), 0.001)::real END`

// Finish ends a job whose items all have final statuses. It tells whether it has, and how many items there are. Of a
// queue's job that happens with the end of its last item, unless its rows were not all persisted then, or it was paused.
func (s *Store) Finish(ctx context.Context, j Job) (items int32, finished bool, err error) {
	err = s.pool.QueryRow(ctx, `UPDATE millrace.upload AS u SET finished_at = now(), last_heartbeat = now(),
		items_sec = CASE WHEN cancelled_at IS NULL THEN `+itemsRate+` ELSE items_sec END,
		queue_state = CASE WHEN read_rows > 0 AND rejected = read_rows AND cancelled_at IS NULL THEN 'FAILED' ELSE 'DONE' END,
		last_error = CASE WHEN read_rows > 0 AND rejected = read_rows AND cancelled_at IS NULL
			THEN 'no row could be persisted: all ' || rejected || ' break a rule' END
		WHERE no = $1 AND queue_state = 'RUNNING' AND (read_all OR cancelled_at IS NOT NULL) AND pending + processing = 0
		AND deleted_at IS NULL RETURNING read_rows - rejected`, j.No).Scan(&items)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("finish the upload %s: %w", j.ID, err)
	}
	return items, true, nil
}

// Stop has a job wait for its user, or fail where none of its rows could be persisted, and says why.
func (s *Store) Stop(ctx context.Context, j Job, reason string) error {
	return s.troubled(ctx, j, "stop", `, queue_state = CASE WHEN read_rows = rejected THEN 'FAILED' ELSE 'PAUSED' END,
		finished_at = CASE WHEN read_rows = rejected THEN now() END`, reason)
}

// Pausing has a job wait for its user, and says why.
func (s *Store) Pausing(ctx context.Context, j Job, reason string) error {
	return s.troubled(ctx, j, "pause", ", queue_state = 'PAUSED'", reason)
}

// NoteError notes why an attempt has failed that is tried again.
func (s *Store) NoteError(ctx context.Context, j Job, reason string) error {
	return s.troubled(ctx, j, "note an error of", "", reason)
}

// troubled notes why work on a job that runs has failed, and sets other columns.
func (s *Store) troubled(ctx context.Context, j Job, what, also, reason string) error {
	_, err := s.pool.Exec(ctx, "UPDATE millrace.upload SET last_error = $2"+also+" WHERE no = $1 AND queue_state = 'RUNNING'",
		j.No, reason)
	if err != nil {
		return fmt.Errorf("%s the upload %s: %w", what, j.ID, err)
	}
	return nil
}

// clearLimit is how many rows of each table one transaction deletes.
const clearLimit = 5000

// Clear deletes rows of a deleted job, a part in each transaction. Its file is gone already.
func (s *Store) Clear(ctx context.Context, j Job) error {
	for _, table := range []string{"upload_item", "upload_row", "upload_image", "upload_result", "upload_reject"} {
		for after, more := int32(math.MinInt32), true; more; {
			// Behind the part before: rows that were deleted a moment ago are still in the index.
			var n int
			err := s.pool.QueryRow(ctx, `WITH part AS MATERIALIZED (
					SELECT row_no FROM millrace.`+table+` WHERE job_no = $1 AND row_no > $2 ORDER BY row_no LIMIT $3
				), gone AS (
					DELETE FROM millrace.`+table+` WHERE job_no = $1 AND row_no > $2 AND row_no <= (SELECT max(row_no) FROM part)
				) SELECT count(*), coalesce(max(row_no), $2) FROM part`, j.No, after, clearLimit).Scan(&n, &after)
			if err != nil {
				return fmt.Errorf("clear %s of the upload %s: %w", table, j.ID, err)
			}
			more = n == clearLimit
		}
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var received bool
		var rows int32
		var bytes int64
		err := tx.QueryRow(ctx, `DELETE FROM millrace.upload WHERE no = $1 AND deleted_at IS NOT NULL
			RETURNING received_at IS NOT NULL, read_rows, size`, j.No).Scan(&received, &rows, &bytes)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !received {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE millrace.upload_owner SET rows = rows - $2, bytes = bytes - $3 WHERE no = $1",
			j.OwnerNo, rows, bytes)
		return err
	})
	if err != nil {
		return fmt.Errorf("clear the upload %s: %w", j.ID, err)
	}
	return nil
}

// sliceLocks is the class of the advisory locks of those who run a slice for a caller.
const sliceLocks int32 = 0x75706b6f

// Alone does something for a job unless somebody does so already, in whichever process.
func (s *Store) Alone(ctx context.Context, j Job, do func() error) (alone bool, err error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("lock the upload %s: %w", j.ID, err)
	}
	defer conn.Release()
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", sliceLocks, j.No).Scan(&alone); err != nil || !alone {
		return false, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", sliceLocks, j.No); err != nil {
			_ = conn.Conn().Close(ctx) // that ends the lock, too
		}
	}()
	return true, do()
}
