package batches

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/inserts"

	schema "github.com/millrace-io/millrace/schemas/batches"
	tables "github.com/millrace-io/millrace/schemas/clickhouse"
)

// sink is where one session stores.
type sink struct {
	service *Service
	conn    driver.Conn
	insert  inserts.Writer
	cut     func()
}

func openSink(s *Service) (*sink, error) {
	opts, cut := dbpool.Cuttable(s.deps.ClickHouse)
	conn, err := clickhouse.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	return &sink{service: s, conn: conn, insert: inserts.Writer{Opts: opts}, cut: cut}, nil
}

func (s *sink) close() {
	s.cut()
	_ = errors.Join(s.insert.Close(), s.conn.Close()) // the session has ended
}

// Stored has nothing to add to the position: what is stored is known by its sequences.
func (s *sink) Stored(context.Context) (fold.Stored, error) { return fold.Stored{}, nil }

// Open implements fold.Sink.
func (s *sink) Open(context.Context, uint64) (fold.View[*cut], error) { return &view{sink: s}, nil }

// Failing is never true: a write that fails ends the session.
func (s *sink) Failing() bool { return false }

// known is what Postgres has of a batch.
type known struct {
	hash []byte
	seq  uint64
}

const sqlKnown = `SELECT b.job_id, b.batch_index, b.content_hash, b.seq FROM millrace.batch AS b
	JOIN unnest($1::text[], $2::integer[]) AS k (job, index) ON b.job_id = k.job AND b.batch_index = k.index`

// judge finds out which entries count (invariant 2), and returns the conflicts: the first
// other content of each batch.
func (s *sink) judge(ctx context.Context, entries []*entry) (conflicts []*entry, err error) {
	jobs, indexes := make([]string, len(entries)), make([]int32, len(entries))
	for i, e := range entries {
		jobs[i], indexes[i] = e.read.About.Batch.Job, e.read.About.Batch.Index
	}
	rows, err := s.service.deps.Postgres.Query(ctx, sqlKnown, jobs, indexes)
	if err != nil {
		return nil, fmt.Errorf("look for batches: %w", err)
	}
	first := map[schema.ID]known{}
	var id schema.ID
	var k known
	if _, err := pgx.ForEachRow(rows, []any{&id.Job, &id.Index, &k.hash, &k.seq}, func() error {
		first[id] = known{bytes.Clone(k.hash), k.seq}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("look for batches: %w", err)
	}
	for _, e := range entries {
		id := e.read.About.Batch
		was, there := first[id]
		if !there {
			was = known{e.read.Hash[:], e.seq}
			first[id] = was
		}
		if e.counts = was.seq == e.seq; !e.counts && !bytes.Equal(was.hash, e.read.Hash[:]) {
			conflicts = append(conflicts, e)
		}
	}
	return conflicts, nil
}

// insertOutcomes stores the outcomes of the entries that count, exactly once.
func (s *sink) insertOutcomes(ctx context.Context, c *cut) error {
	token := fmt.Sprintf("batches/%d-%d", c.From, c.To)
	if err := s.insertErrors(ctx, c, token); err != nil {
		return err
	}
	landed := map[uint64]bool{}
	for attempt := 0; attempt < 3; attempt++ {
		if attempt > 0 || c.Recovered {
			var err error
			if landed, err = s.landed(ctx, c); err != nil {
				return err
			}
		}
		block := tables.NewOutcomeBlock()
		for _, e := range c.entries {
			if e.counts && !landed[e.seq] {
				e.appendTo(block, false)
			}
		}
		if block.Rows() == 0 {
			return nil
		}
		if attempt > 0 { // the server knows the token, and has lost the rows
			token = fmt.Sprintf("%s/repair/%d", token, attempt)
		}
		if err := s.send(ctx, block, token); err != nil {
			return err
		}
		if !c.Recovered {
			return nil
		}
	}
	return fmt.Errorf("outcomes of the sequences (%d, %d] are not to be seen after inserts that were confirmed", c.From,
		c.To)
}

// insertErrors stores errors. A row that is there already is replaced by the same.
func (s *sink) insertErrors(ctx context.Context, c *cut, token string) error {
	block := tables.NewErrorBlock()
	for _, e := range c.entries {
		if e.counts {
			e.appendTo(block, true)
		}
	}
	if block.Rows() == 0 {
		return nil
	}
	if c.Recovered { // the server may know the token and have lost the rows
		token = fmt.Sprintf("%s/%d", token, time.Now().UnixNano())
	}
	return s.send(ctx, block, token)
}

func (s *sink) send(ctx context.Context, block *tables.OutcomeBlock, token string) error {
	defer context.AfterFunc(ctx, s.cut)() // a server that hangs would not notice
	if err := s.insert.Dial(ctx); err != nil {
		return err
	}
	return s.insert.Insert(ctx, block.Table(), block.Table()+"/"+token, block.Rows(), block.Input())
}

// landed returns the sequences of a cut whose outcomes are there: those of a batch are all
// there or none is, since they are in one partition.
func (s *sink) landed(ctx context.Context, c *cut) (map[uint64]bool, error) {
	rows, err := s.conn.Query(ctx, "SELECT DISTINCT seq FROM item_outcomes WHERE seq > ? AND seq <= ? AND version = 0",
		c.From, c.To)
	if err != nil {
		return nil, fmt.Errorf("ask which outcomes have landed: %w", err)
	}
	defer rows.Close()
	there := map[uint64]bool{}
	for rows.Next() {
		var seq uint64
		if err := rows.Scan(&seq); err != nil {
			return nil, fmt.Errorf("ask which outcomes have landed: %w", err)
		}
		there[seq] = true
	}
	return there, rows.Err()
}

// appendTo adds the rows of the batch, or those of its errors.
func (e *entry) appendTo(block *tables.OutcomeBlock, errorsAlone bool) {
	a := &e.read.About
	of := tables.Outcome{
		Batch: a.Batch, Project: schema.ProjectOf(a.Batch.Job), Platform: a.Platform, Seq: e.seq, ReadAt: e.readAt,
	}
	for position := range e.read.Items {
		item := &e.read.Items[position]
		if errorsAlone && item.OK() {
			continue
		}
		block.Append(&of, position, item, or(item.TaskType, a.TaskType), or(item.Keyword, a.Keyword))
	}
}

func or(said, else_ string) string {
	if said != "" {
		return said
	}
	return else_
}

const sqlInsert = `INSERT INTO millrace.batch (job_id, batch_index, project_id, platform, task_type, keyword, format,
	bucket, object_key, announced, content_count, ok, error, errors, warnings, content_hash, announced_at, read_at,
	changed_at, seq)
	VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, nullif($8, ''), nullif($9, ''), $10, $11, $12, $13, $14, $15, $16,
	$17, $18, now(), $19) ON CONFLICT DO NOTHING`

const sqlConflict = `UPDATE millrace.batch SET conflict = $3, changed_at = now()
	WHERE job_id = $1 AND batch_index = $2 AND conflict IS NULL`

// writeRows writes the rows of batches that count, and notes conflicts. Doing so again
// changes nothing.
func (s *sink) writeRows(ctx context.Context, entries, conflicts []*entry) error {
	var all pgx.Batch
	for _, e := range entries {
		if e.counts {
			e.queueRow(&all)
		}
	}
	for _, e := range conflicts {
		all.Queue(sqlConflict, e.read.About.Batch.Job, e.read.About.Batch.Index, map[string]any{
			"at": e.readAt, "content_hash": hex.EncodeToString(e.read.Hash[:]), "content_count": len(e.read.Items),
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

func (e *entry) queueRow(all *pgx.Batch) {
	a := &e.read.About
	errorCodes, outcomes := map[string]int{}, make([]schema.Outcome, len(e.read.Items))
	for i := range e.read.Items {
		outcomes[i] = e.read.Items[i].Outcome
		if !outcomes[i].OK() {
			errorCodes[jsonText(outcomes[i].Code)]++
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
		a.Format.String(), a.Object.Bucket, a.Object.Key, announced, n, e.ok, n-e.ok, errorCodes, warnings,
		e.read.Hash[:], e.read.AnnouncedAt, e.readAt, int64(e.seq))
}

// jsonText is a code as Postgres has it in JSON, which holds no NUL.
func jsonText(code string) string {
	return string(bytes.ReplaceAll([]byte(code), []byte{0}, []byte("\ufffd")))
}
