package batches

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/projector/fold"

	schema "github.com/millrace-io/millrace/schemas/batches"
	tables "github.com/millrace-io/millrace/schemas/clickhouse"
)

// sink is where one session stores.
type sink struct {
	service *Service
	conn    driver.Conn
	// rows writes to Postgres. It is one connection of the pool for the whole session: each one
	// that writes comes to map all of Postgres' shared buffers.
	rows *pgxpool.Conn
	// Two blocks are inserted side by side.
	outcomes, errors fold.Writer
	cut              func()
}

func openSink(ctx context.Context, s *Service) (*sink, error) {
	opts, cut := dbpool.Cuttable(s.deps.ClickHouse)
	conn, err := dbpool.Open(opts, pool, s.deps.Slow)
	if err != nil {
		return nil, err
	}
	rows, err := s.deps.Postgres.Acquire(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to Postgres: %w", err), conn.Close())
	}
	writer := fold.Writer{Opts: opts, Slow: s.deps.Slow, Pool: pool}
	return &sink{service: s, conn: conn, rows: rows, outcomes: writer, errors: writer, cut: cut}, nil
}

// pool is what logs of slow statements call the connections.
const pool = "batches"

func (s *sink) close() {
	s.rows.Release()
	s.cut()
	_ = errors.Join(s.outcomes.Close(), s.errors.Close(), s.conn.Close()) // the session has ended
}

// Stored names one of the last messages that were stored. What is stored is known by its
// sequences, which a stream that was made anew would use again.
func (s *sink) Stored(ctx context.Context) (stored fold.Stored, err error) {
	err = s.rows.QueryRow(ctx, "SELECT seq, read_at FROM millrace.batch ORDER BY read_at DESC LIMIT 1").
		Scan(&stored.Seq, &stored.Received)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return stored, fmt.Errorf("look for the batch that was read last: %w", err)
	}
	return stored, nil
}

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
	rows, err := s.rows.Query(ctx, sqlKnown, jobs, indexes)
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

// insert stores what ClickHouse has of the entries that count, and of retries.
func (s *sink) insert(ctx context.Context, c *cut) error {
	token := fmt.Sprintf("batches/%d-%d", c.From, c.To)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.insertErrors(ctx, c, token) })
	g.Go(func() error { return s.insertOutcomes(ctx, c, token) })
	return g.Wait()
}

// insertOutcomes stores the outcomes, exactly once.
func (s *sink) insertOutcomes(ctx context.Context, c *cut, token string) error {
	landed := map[uint64]bool{}
	for attempt := range 3 {
		if err := s.markStored(ctx, c.retries); err != nil {
			return err
		}
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
		for _, e := range c.retries {
			if !e.isStored {
				e.appendTo(block, false)
			}
		}
		if block.Rows() == 0 {
			return nil
		}
		if attempt > 0 { // the server knows the token, and has lost the rows
			token = fmt.Sprintf("%s/repair/%d", token, attempt)
		}
		if err := s.send(ctx, &s.outcomes, block, token); err != nil {
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
	for _, e := range c.retries {
		e.appendTo(block, true)
	}
	if block.Rows() == 0 {
		return nil
	}
	if c.Recovered { // the server may know the token and have lost the rows
		token = fmt.Sprintf("%s/%d", token, time.Now().UnixNano())
	}
	return s.send(ctx, &s.errors, block, token)
}

func (s *sink) send(ctx context.Context, to *fold.Writer, block *tables.OutcomeBlock, token string) error {
	defer context.AfterFunc(ctx, s.cut)() // a server that hangs would not notice
	if err := to.Dial(ctx); err != nil {
		return err
	}
	return to.Insert(ctx, block.Table(), block.Table()+"/"+token, block.Rows(), block.Input())
}

// landed returns the sequences of a cut whose outcomes are there: those of a batch are all
// there or none is, since they are in one partition.
func (s *sink) landed(ctx context.Context, c *cut) (map[uint64]bool, error) {
	const query = "SELECT DISTINCT seq FROM item_outcomes WHERE seq > ? AND seq <= ? AND version = 0"
	there := map[uint64]bool{}
	err := dbpool.EachRow(ctx, s.conn, query, []any{c.From, c.To}, func(rows driver.Rows) error {
		var seq uint64
		err := rows.Scan(&seq)
		there[seq] = true
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask which outcomes have landed: %w", err)
	}
	return there, nil
}

// appendTo adds the rows of the entry, or those that its errors have in item_errors. There a
// retry that succeeds has a row, too, which removes the error.
func (e *entry) appendTo(block *tables.OutcomeBlock, errorsAlone bool) {
	a := &e.read.About
	of := tables.Outcome{
		Batch: a.Batch, Project: schema.ProjectOf(a.Batch.Job), Platform: a.Platform, Seq: e.seq, ReadAt: e.at,
		CreatedAt: e.at,
	}
	first := 0
	if again := e.read.Retry; again != nil {
		first, of.Version, of.ReadAt = again.Position, again.Version, time.Unix(0, again.ReadAt).UTC()
	}
	for i := range e.read.Items {
		item := &e.read.Items[i]
		if errorsAlone && item.OK() && of.Version == 0 {
			continue
		}
		block.Append(&of, first+i, item, cmp.Or(item.TaskType, a.TaskType), cmp.Or(item.Keyword, a.Keyword))
	}
}
