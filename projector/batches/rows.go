package batches

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/fingerprint"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

const sqlInsert = `WITH made AS (
		INSERT INTO millrace.batch (job_id, batch_index, project_id, platform, task_type, keyword, format, bucket,
			object_key, announced, content_count, ok, error, retrying, errors, warnings, content_hash, announced_at,
			read_at, changed_at, seq)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, nullif($8, ''), nullif($9, ''), $10, $11, $12, $13, $14, $15, $16,
			$17, $18, $19, now(), $20)
		ON CONFLICT DO NOTHING
		RETURNING job_id
	)
	INSERT INTO millrace.batch_error (job_id, batch_index, position, project_id, content_id, read_at, state, category,
		code, print, queue, due_at, task)
	SELECT $1, $2, u.position, $3, u.id, $19, CASE WHEN u.wait < 0 THEN 'error' ELSE 'waiting' END, u.category, u.code,
		u.print, u.queue, now() + u.wait * interval '1 second', u.task
	FROM unnest($21::integer[], $22::text[], $23::float8[], $24::text[], $25::text[], $26::bigint[], $27::text[],
		$28::text[]) AS u (position, id, wait, category, code, print, queue, task)
	WHERE EXISTS (SELECT FROM made)`

const sqlConflict = `UPDATE millrace.batch SET conflict = $3, changed_at = now()
	WHERE job_id = $1 AND batch_index = $2 AND conflict IS NULL`

// writeRows writes the rows of batches that count, and of their errors, and notes conflicts.
// Doing so again changes nothing.
func (s *sink) writeRows(ctx context.Context, entries, conflicts []*entry) error {
	var all pgx.Batch
	for _, e := range entries {
		if !e.counts {
			continue
		}
		if err := e.queueRow(&all); err != nil {
			return err
		}
	}
	slices.SortStableFunc(conflicts, func(a, b *entry) int { // whoever locks batches does so in this order
		x, y := a.read.About.Batch, b.read.About.Batch
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Index, y.Index))
	})
	for _, e := range conflicts {
		all.Queue(sqlConflict, e.read.About.Batch.Job, e.read.About.Batch.Index, map[string]any{
			"at": e.at, "content_hash": hex.EncodeToString(e.read.Hash[:]), "content_count": len(e.read.Items),
			"object": e.read.About.Object.String(), "seq": e.seq,
		})
	}
	if all.Len() == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, s.service.deps.Postgres, func(tx pgx.Tx) error { return tx.SendBatch(ctx, &all).Close() })
	if err != nil {
		return fmt.Errorf("write rows of batches: %w", err)
	}
	return nil
}

func (e *entry) queueRow(all *pgx.Batch) error {
	a := &e.read.About
	errorCodes, outcomes := map[string]int{}, make([]schema.Outcome, len(e.read.Items))
	var rows errorRows
	for i := range e.read.Items {
		outcomes[i] = e.read.Items[i].Outcome
		if outcomes[i].OK() {
			continue
		}
		errorCodes[schema.Text(outcomes[i].Code)]++
		if err := rows.add(a, i, &outcomes[i]); err != nil {
			return err
		}
	}
	warnings := []map[string]string{}
	for _, w := range a.Warnings(outcomes) {
		warnings = append(warnings, map[string]string{"code": w.Code, "text": w.Text})
	}
	var announced *int
	if a.Count >= 0 {
		announced = &a.Count
	}
	n := len(e.read.Items)
	all.Queue(sqlInsert, a.Batch.Job, a.Batch.Index, schema.ProjectOf(a.Batch.Job), a.Platform, a.TaskType, a.Keyword,
		a.Format.String(), a.Object.Bucket, a.Object.Key, announced, n, e.ok, n-e.ok-e.retrying, e.retrying, errorCodes,
		warnings, e.read.Hash[:], e.read.AnnouncedAt, e.at, int64(e.seq), rows.positions, rows.ids, rows.waits,
		rows.categories, rows.codes, rows.prints, rows.queues, rows.tasks)
	return nil
}

// errorRows are rows of the table batch_error.
type errorRows struct {
	positions                             []int32
	ids, categories, codes, queues, tasks []string
	waits                                 []float64 // seconds; less than 0: it is not tried again
	prints                                []int64
}

func (r *errorRows) add(a *schema.Announcement, position int, o *schema.Outcome) error {
	task, err := json.Marshal(schema.TaskOf(a, position, o))
	if err != nil {
		return fmt.Errorf("write what is tried again: %w", err)
	}
	policy, again := o.Category.Retry()
	wait := -1.0
	if again {
		wait = policy.Waits[0].Seconds()
	}
	r.positions, r.ids, r.waits = append(r.positions, int32(position)), append(r.ids, o.ContentID), append(r.waits, wait)
	r.categories, r.codes = append(r.categories, string(o.Category)), append(r.codes, schema.Text(o.Code))
	r.prints = append(r.prints, fingerprint.Hash(fingerprint.Of(o.Message)))
	r.queues, r.tasks = append(r.queues, policy.Queue), append(r.tasks, string(task))
	return nil
}
