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

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// sqlInsert returns which rows are new, and the time of the transaction.
const sqlInsert = `INSERT INTO millrace.batch (job_id, batch_index, project_id, platform, task_type, keyword, format,
		bucket, object_key, announced, content_count, ok, error, retrying, errors, warnings, content_hash, announced_at,
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
	RETURNING seq, now()`

const sqlConflict = `UPDATE millrace.batch SET conflict = $3, changed_at = now()
	WHERE job_id = $1 AND batch_index = $2 AND conflict IS NULL`

// maxBatchRows is how many rows of batches one statement writes. The rows of their errors are
// streamed, so that neither this process nor Postgres holds those of a large cut in memory.
const maxBatchRows = 500

// writeRows writes the rows of batches that count, and of their errors, and notes conflicts.
// Doing so again changes nothing.
func (s *sink) writeRows(ctx context.Context, entries, conflicts []*entry) error {
	counting := make([]*entry, 0, len(entries))
	for _, e := range entries {
		if e.counts {
			counting = append(counting, e)
		}
	}
	if len(counting)+len(conflicts) == 0 {
		return nil
	}
	err := pgx.BeginFunc(ctx, s.rows, func(tx pgx.Tx) error {
		for some := range slices.Chunk(counting, maxBatchRows) {
			if err := writeBatches(ctx, tx, some); err != nil {
				return err
			}
		}
		return noteConflicts(ctx, tx, conflicts)
	})
	if err != nil {
		return fmt.Errorf("write rows of batches: %w", err)
	}
	return nil
}

// writeBatches writes the rows of some batches, and of the errors of those that had none.
func writeBatches(ctx context.Context, tx pgx.Tx, entries []*entry) error {
	var rows batchRows
	for _, e := range entries {
		if err := rows.add(e); err != nil {
			return err
		}
	}
	made, now, err := rows.insert(ctx, tx)
	if err != nil {
		return err
	}
	failing := slices.DeleteFunc(slices.Clone(entries), func(e *entry) bool {
		return !made[e.seq] || e.ok == len(e.read.Items)
	})
	return copyErrors(ctx, tx, failing, now)
}

func noteConflicts(ctx context.Context, tx pgx.Tx, conflicts []*entry) error {
	if len(conflicts) == 0 {
		return nil
	}
	slices.SortStableFunc(conflicts, func(a, b *entry) int { // whoever locks batches does so in this order
		x, y := a.read.About.Batch, b.read.About.Batch
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Index, y.Index))
	})
	var all pgx.Batch
	for _, e := range conflicts {
		all.Queue(sqlConflict, e.read.About.Batch.Job, e.read.About.Batch.Index, map[string]any{
			"at": e.at, "content_hash": hex.EncodeToString(e.read.Hash[:]), "content_count": len(e.read.Items),
			"object": e.read.About.Object.String(), "seq": e.seq,
		})
	}
	return tx.SendBatch(ctx, &all).Close()
}

// batchRows are rows of the table batch.
type batchRows struct {
	jobs, projects, platforms, tasks, keywords, formats []string
	buckets, keys, codes, warnings                      []string
	indexes, announced, items, oks, retrying            []int32
	hashes                                              [][]byte
	announcedAt, readAt                                 []time.Time
	seqs                                                []int64
}

func (r *batchRows) add(e *entry) error {
	a := &e.read.About
	errorCodes, outcomes := map[string]int{}, make([]schema.Outcome, len(e.read.Items))
	for i := range e.read.Items {
		outcomes[i] = e.read.Items[i].Outcome
		if !outcomes[i].OK() {
			errorCodes[schema.Text(outcomes[i].Code)]++
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

// insert writes the rows. It returns the sequences of those that were not there, and the time of
// the transaction.
func (r *batchRows) insert(ctx context.Context, tx pgx.Tx) (made map[uint64]bool, now time.Time, err error) {
	rows, err := tx.Query(ctx, sqlInsert, r.jobs, r.indexes, r.projects, r.platforms, r.tasks, r.keywords, r.formats,
		r.buckets, r.keys, r.announced, r.items, r.oks, r.retrying, r.codes, r.warnings, r.hashes, r.announcedAt, r.readAt,
		r.seqs)
	if err != nil {
		return nil, now, err
	}
	made = make(map[uint64]bool, len(r.seqs))
	var seq int64
	_, err = pgx.ForEachRow(rows, []any{&seq, &now}, func() error {
		made[uint64(seq)] = true
		return nil
	})
	return made, now, err
}
