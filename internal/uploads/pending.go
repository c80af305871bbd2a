package uploads

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/tabular"
	"github.com/millrace-io/millrace/schemas/uploads"
)

// PendingQuery selects a page of the items of all jobs of a user, or of all users.
type PendingQuery struct {
	Owner    *string // nil: of all users
	Statuses []uploads.Status
	Kind     string         // of the files; empty: any
	After    uploads.Cursor // zero: from the beginning
	Limit    int
}

// PendingItem is an item with its job.
type PendingItem struct {
	Item
	Job *Job
}

// PendingPage is a page of items of many jobs, ordered by (updated_at, job, row).
type PendingPage struct {
	Items []PendingItem
	// More tells that the walk is not at its end: the page is full, or transactions are under way whose
	// items may belong before those that were left out.
	More bool
}

// Pending returns a page of items, whose results it does not read. A job's items follow the order of
// commits (3), those of several jobs do not: a transaction takes its time and commits later. So a page
// ends before the beginning of the oldest transaction that is under way.
func (s *Store) Pending(ctx context.Context, q PendingQuery) (PendingPage, error) {
	page, err := s.pending(ctx, q)
	if err != nil {
		return PendingPage{}, fmt.Errorf("read the items of all uploads: %w", err)
	}
	return page, nil
}

func (s *Store) pending(ctx context.Context, q PendingQuery) (page PendingPage, err error) {
	horizon, jobs, after, err := s.pendingJobs(ctx, q)
	if err != nil || len(jobs) == 0 {
		return page, err
	}
	all, err := s.pendingItems(ctx, q, jobs, after)
	if err != nil {
		return page, err
	}
	page.Items, page.More = all, len(all) == q.Limit
	if end := slices.IndexFunc(all, func(i PendingItem) bool { return !i.Updated.Before(horizon) }); end >= 0 {
		page.Items, page.More = all[:end], true
	}
	return page, nil
}

// horizonSQL is before the times that transactions may yet commit. A transaction has its id before it
// takes a time, see nextChange, and is in the list until others see what it has done.
const horizonSQL = `SELECT least(clock_timestamp(), min(coalesce(xact_start, statement_timestamp())))
	FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND datname = current_database() AND pid <> pg_backend_pid()`

// pendingJobs returns the jobs that have items of the statuses behind a cursor, and the number of the cursor's job; 0: it is
// gone. A job's items have all changed by changed_at. All that is committed before the horizon, statements that follow see.
func (s *Store) pendingJobs(ctx context.Context, q PendingQuery) (horizon time.Time, jobs []Job, after int32, err error) {
	// One round trip. Each statement has a snapshot of its own: what has committed before the first one ends, the others see.
	var all pgx.Batch
	all.Queue(horizonSQL).QueryRow(func(r pgx.Row) error { return r.Scan(&horizon) })
	if q.After.Job != "" {
		id, err := uuid.Parse(q.After.Job)
		if err != nil {
			return horizon, nil, 0, err
		}
		all.Queue("SELECT coalesce((SELECT no FROM millrace.upload WHERE id = $1), 0)", id).
			QueryRow(func(r pgx.Row) error { return r.Scan(&after) })
	}
	all.Queue("SELECT "+columns+tables+`WHERE u.received_at IS NOT NULL AND u.deleted_at IS NULL
		AND ($1::text IS NULL OR u.owner_no = (SELECT no FROM millrace.upload_owner WHERE subject = $1))
		AND ($2 = '' OR u.kind = $2) AND u.changed_at >= $3 AND EXISTS (
			SELECT FROM unnest(ARRAY[u.pending, u.processing, u.done, u.error, u.not_found, u.skipped]) WITH ORDINALITY AS c (n, at)
			WHERE n > 0 AND at - 1 = ANY ($4::smallint[]))`, q.Owner, q.Kind, q.After.At, numbers(q.Statuses)).
		Query(func(rows pgx.Rows) (err error) {
			jobs, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (Job, error) { return jobOf(r) })
			return err
		})
	return horizon, jobs, after, s.pool.SendBatch(ctx, &all).Close()
}

func numbers(all []uploads.Status) []int16 {
	out := make([]int16, len(all))
	for i, of := range all {
		out[i] = int16(of)
	}
	return out
}

// pendingSQL walks an index for each job and status, and merges them, see walk.
var pendingSQL = `WITH first AS (
		SELECT job.*, i.* FROM unnest($1::integer[], $2::integer[], $3::integer[], $4::integer[], $5::text[], $6::text[],
			$7::text[]) AS job (no, column1, column2, column3, name1, name2, name3),
			unnest($8::smallint[]) AS s (status), LATERAL (
			SELECT row_no, status, attempts, version, updated_at, item_id FROM millrace.upload_item
			WHERE job_no = job.no AND (status, updated_at, row_no) > (s.status, $9,
				CASE WHEN job.no = $10 THEN $11 WHEN job.no > $10 THEN 0 ELSE 2147483647 END) AND status <= s.status
			ORDER BY status, updated_at, row_no LIMIT $12
		) AS i ORDER BY updated_at, no, row_no LIMIT $12
	)
	SELECT first.no, first.row_no, status, coalesce(held.attempts, first.attempts), version, updated_at, held.worker, held.taken_at,
		CASE WHEN json_typeof(input) = 'array' THEN left(input ->> column1, 200) ELSE left(input ->> name1, 200) END,
		CASE WHEN json_typeof(input) = 'array' THEN left(input ->> column2, 200) ELSE left(input ->> name2, 200) END,
		CASE WHEN json_typeof(input) = 'array' THEN left(input ->> column3, 200) ELSE left(input ->> name3, 200) END
	FROM first, LATERAL (
		SELECT input FROM millrace.upload_row WHERE job_no = first.no AND row_no = first.row_no OFFSET 0
	) AS r` + heldJoin("first") + `
	ORDER BY updated_at, first.no, first.row_no`

func (s *Store) pendingItems(ctx context.Context, q PendingQuery, jobs []Job, after int32) ([]PendingItem, error) {
	nos, byNo := make([]int32, len(jobs)), make(map[int32]*Job, len(jobs))
	var places [3][]*int
	var names [3][]string
	for i := range jobs {
		nos[i], byNo[jobs[i].No] = jobs[i].No, &jobs[i]
		of, at := summaryColumns(jobs[i])
		for k := range names {
			names[k], places[k] = append(names[k], of[k]), append(places[k], at[k])
		}
	}
	var all []PendingItem
	err := s.walk(ctx, pendingSQL, []any{
		nos, places[0], places[1], places[2], names[0], names[1], names[2], numbers(q.Statuses), q.After.At, after, q.After.Row, q.Limit,
	}, func(rows pgx.Rows) (err error) {
		all, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (item PendingItem, err error) {
			var no int32
			err = r.Scan(&no, &item.Row, &item.Status, &item.Attempts, &item.Version, &item.Updated, &item.Worker, &item.TakenAt,
				&item.Summary[0], &item.Summary[1], &item.Summary[2])
			item.Job = byNo[no]
			return item, err
		})
		return err
	})
	return all, err
}

// summaryColumns returns the names of the columns that summarize a row, and their places; nil: rows have
// no such column. (-1 would be the last one.)
func summaryColumns(j Job) (names [3]string, places [3]*int) {
	names = SummaryOf(j)
	columns := tabular.Keys(j.Header)
	for k, name := range names {
		if i := slices.Index(columns, name); i >= 0 {
			places[k] = &i
		}
	}
	return names, places
}
