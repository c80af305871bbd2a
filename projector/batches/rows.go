package batches

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

const sqlInsert = `WITH made AS (
		INSERT INTO millrace.batch (job_id, batch_index, project_id, platform, task_type, keyword, format, bucket,
			object_key, announced, content_count, ok, error, retrying, errors, warnings, content_hash, announced_at,
			read_at, changed_at, seq)
		SELECT job, index, nullif(project, ''), platform, task, keyword, format, nullif(bucket, ''), nullif(key, ''),
			nullif(announced, -1), items, ok, items - ok - retrying, retrying, errors::jsonb, warnings::jsonb, hash,
			announced_at, read_at, now(), seq
		FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
			$9::text[], $10::integer[], $11::integer[], $12::integer[], $13::integer[], $14::text[], $15::text[],
			$16::bytea[], $17::timestamptz[], $18::timestamptz[], $19::bigint[])
			AS u (job, index, project, platform, task, keyword, format, bucket, key, announced, items, ok, retrying,
				errors, warnings, hash, announced_at, read_at, seq)
		ON CONFLICT DO NOTHING
		RETURNING job_id, batch_index, coalesce(project_id, '') AS project_id, read_at, seq
	)
	INSERT INTO millrace.batch_error (job_id, batch_index, position, project_id, content_id, read_at, state, category,
		code, print, queue, due_at, task)
	SELECT m.job_id, m.batch_index, u.position, m.project_id, u.id, m.read_at,
		CASE WHEN u.wait < 0 THEN 'error' ELSE 'waiting' END, u.category, u.code, u.print, u.queue,
		now() + u.wait * interval '1 second', u.task
	FROM unnest($20::bigint[], $21::integer[], $22::text[], $23::float8[], $24::text[], $25::text[], $26::bigint[],
		$27::text[], $28::text[]) AS u (seq, position, id, wait, category, code, print, queue, task)
	JOIN made AS m ON m.seq = u.seq`

const sqlConflict = `UPDATE millrace.batch SET conflict = $3, changed_at = now()
	WHERE job_id = $1 AND batch_index = $2 AND conflict IS NULL`

// Bounds of one statement, so that Postgres holds no more of a large cut at a time.
const (
	maxBatchRows = 1_000
	maxErrorRows = 10_000
)

// writeRows writes the rows of batches that count, and of their errors, and notes conflicts.
// Doing so again changes nothing.
func (s *sink) writeRows(ctx context.Context, entries, conflicts []*entry) error {
	var all pgx.Batch
	var rows batchRows
	for _, e := range entries {
		if !e.counts {
			continue
		}
		if err := rows.add(e); err != nil {
			return err
		}
		if len(rows.jobs) >= maxBatchRows || len(rows.errors.positions) >= maxErrorRows {
			rows.queue(&all)
			rows = batchRows{}
		}
	}
	if len(rows.jobs) > 0 {
		rows.queue(&all)
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

// batchRows are rows of the table batch, with those that their errors have in batch_error.
type batchRows struct {
	jobs, projects, platforms, tasks, keywords, formats []string
	buckets, keys, codes, warnings                      []string
	indexes, announced, items, oks, retrying            []int32
	hashes                                              [][]byte
	announcedAt, readAt                                 []time.Time
	seqs                                                []int64
	errors                                              errorRows
}

func (r *batchRows) add(e *entry) error {
	a := &e.read.About
	errorCodes, outcomes := map[string]int{}, make([]schema.Outcome, len(e.read.Items))
	for i := range e.read.Items {
		outcomes[i] = e.read.Items[i].Outcome
		if outcomes[i].OK() {
			continue
		}
		errorCodes[schema.Text(outcomes[i].Code)]++
		if err := r.errors.add(e, i, &outcomes[i]); err != nil {
			return err
		}
	}
	warnings := []map[string]string{}
	for _, w := range a.Warnings(outcomes) {
		warnings = append(warnings, map[string]string{"code": w.Code, "text": w.Text})
	}
	codes, err := json.Marshal(errorCodes)
	if err != nil {
		return fmt.Errorf("write the errors of a batch: %w", err)
	}
	unusual, err := json.Marshal(warnings)
	if err != nil {
		return fmt.Errorf("write the warnings of a batch: %w", err)
	}
	r.jobs, r.indexes = append(r.jobs, a.Batch.Job), append(r.indexes, a.Batch.Index)
	r.projects, r.platforms = append(r.projects, schema.ProjectOf(a.Batch.Job)), append(r.platforms, a.Platform)
	r.tasks, r.keywords = append(r.tasks, a.TaskType), append(r.keywords, a.Keyword)
	r.formats, r.announced = append(r.formats, a.Format.String()), append(r.announced, int32(a.Count))
	r.buckets, r.keys = append(r.buckets, a.Object.Bucket), append(r.keys, a.Object.Key)
	r.items, r.oks = append(r.items, int32(len(outcomes))), append(r.oks, int32(e.ok))
	r.retrying = append(r.retrying, int32(e.retrying))
	r.codes, r.warnings = append(r.codes, string(codes)), append(r.warnings, string(unusual))
	r.hashes, r.seqs = append(r.hashes, e.read.Hash[:]), append(r.seqs, int64(e.seq))
	r.announcedAt, r.readAt = append(r.announcedAt, e.read.AnnouncedAt), append(r.readAt, e.at)
	return nil
}

// queue has the rows written by one statement.
func (r *batchRows) queue(all *pgx.Batch) {
	of := &r.errors
	all.Queue(sqlInsert, r.jobs, r.indexes, r.projects, r.platforms, r.tasks, r.keywords, r.formats, r.buckets, r.keys,
		r.announced, r.items, r.oks, r.retrying, r.codes, r.warnings, r.hashes, r.announcedAt, r.readAt, r.seqs, of.seqs,
		of.positions, of.ids, of.waits, of.categories, of.codes, of.prints, of.queues, of.tasks)
}

// errorRows are rows of the table batch_error.
type errorRows struct {
	seqs, prints                          []int64
	positions                             []int32
	ids, categories, codes, queues, tasks []string
	waits                                 []float64 // seconds; less than 0: it is not tried again
}

func (r *errorRows) add(e *entry, position int, o *schema.Outcome) error {
	task, err := json.Marshal(schema.TaskOf(&e.read.About, position, o))
	if err != nil {
		return fmt.Errorf("write what is tried again: %w", err)
	}
	policy, again := o.Category.Retry()
	wait := -1.0
	if again {
		wait = policy.Waits[0].Seconds()
	}
	r.seqs, r.positions = append(r.seqs, int64(e.seq)), append(r.positions, int32(position))
	r.ids, r.waits = append(r.ids, o.ContentID), append(r.waits, wait)
	r.categories, r.codes = append(r.categories, string(o.Category)), append(r.codes, schema.Text(o.Code))
	r.prints = append(r.prints, item.FingerprintHash(item.Fingerprint(o.Message)))
	r.queues, r.tasks = append(r.queues, policy.Queue), append(r.tasks, string(task))
	return nil
}
