package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/schemas/shard"
)

// batchSize is how many messages are decided at once.
const batchSize = 1000

// ref is what a message is about: one readiness of an item.
type ref struct {
	Item       int64
	Stage      shard.Stage
	Generation int32
}

// batch is a run of messages whose sequences have been decided.
type batch struct {
	First uint64
	Refs  []ref
}

func (b *batch) last() uint64 { return b.First + uint64(len(b.Refs)) - 1 }

func (b *batch) holds(seq uint64) bool { return seq >= b.First && seq <= b.last() }

// batches finds what messages are about. It keeps those used last in memory.
type batches struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	kept []*batch // by First
}

// keptBatches bounds the memory: about 24 MB.
const keptBatches = 1500

func newBatches(pool *pgxpool.Pool) *batches { return &batches{pool: pool} }

func (b *batches) keep(n *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, found := slices.BinarySearchFunc(b.kept, n.First, func(k *batch, first uint64) int { return compare(k.First, first) })
	if found {
		return
	}
	b.kept = slices.Insert(b.kept, i, n)
	if len(b.kept) > keptBatches {
		b.kept = slices.Delete(b.kept, 0, 1)
	}
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// find returns what each message is about. Messages that nobody has decided
// are absent.
func (b *batches) find(ctx context.Context, seqs []uint64) (map[uint64]ref, error) {
	found := make(map[uint64]ref, len(seqs))
	missing := b.look(seqs, found)
	for len(missing) > 0 {
		loaded, err := b.load(ctx, missing)
		if err != nil {
			return nil, err
		}
		for _, n := range loaded {
			b.keep(n)
			for _, seq := range missing {
				if n.holds(seq) {
					found[seq] = n.Refs[seq-n.First]
				}
			}
		}
		missing = missing[min(len(missing), batchSize):]
	}
	return found, nil
}

func (b *batches) look(seqs []uint64, found map[uint64]ref) (missing []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seq := range seqs {
		i, exact := slices.BinarySearchFunc(b.kept, seq, func(k *batch, seq uint64) int { return compare(k.First, seq) })
		if !exact {
			i--
		}
		if i >= 0 && b.kept[i].holds(seq) {
			found[seq] = b.kept[i].Refs[seq-b.kept[i].First]
		} else {
			missing = append(missing, seq)
		}
	}
	return missing
}

const sqlBatch = "SELECT first_seq, items, stages, generations FROM millrace.work_batch "

// load reads the batches of up to batchSize messages.
func (b *batches) load(ctx context.Context, seqs []uint64) ([]*batch, error) {
	asked := make([]int64, 0, min(len(seqs), batchSize))
	for _, seq := range seqs[:cap(asked)] {
		asked = append(asked, int64(seq))
	}
	rows, err := b.pool.Query(ctx, sqlBatch+`WHERE first_seq = ANY (ARRAY(
		SELECT (SELECT max(w.first_seq) FROM millrace.work_batch AS w WHERE w.first_seq <= u.seq) FROM unnest($1::bigint[]) AS u (seq)))`, asked)
	if err != nil {
		return nil, fmt.Errorf("read decided batches: %w", err)
	}
	found, err := pgx.CollectRows(rows, scanBatch)
	if err != nil {
		return nil, fmt.Errorf("read decided batches: %w", err)
	}
	return found, nil
}

// newest returns the batch that was decided last, or nil.
func (b *batches) newest(ctx context.Context) (*batch, error) {
	rows, err := b.pool.Query(ctx, sqlBatch+"ORDER BY first_seq DESC LIMIT 1")
	if err == nil {
		var found *batch
		found, err = pgx.CollectExactlyOneRow(rows, scanBatch)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, nil
		}
		if err == nil {
			return found, nil
		}
	}
	return nil, fmt.Errorf("read the last decided batch: %w", err)
}

func scanBatch(row pgx.CollectableRow) (*batch, error) {
	var first int64
	var items []int64
	var stages []int16
	var generations []int32
	if err := row.Scan(&first, &items, &stages, &generations); err != nil {
		return nil, err
	}
	b := &batch{First: uint64(first), Refs: make([]ref, len(items))}
	for i := range items {
		b.Refs[i] = ref{items[i], shard.Stage(stages[i]), generations[i]}
	}
	return b, nil
}

// drop forgets batches all of whose messages are gone, an hour after they were
// decided: an answer may still come. The newest stays.
func (b *batches) drop(ctx context.Context, before uint64) error {
	_, err := b.pool.Exec(ctx, `DELETE FROM millrace.work_batch WHERE last_seq < $1 AND decided_at < now() - interval '1 hour'
		AND first_seq < (SELECT max(first_seq) FROM millrace.work_batch)`, int64(before))
	if err != nil {
		return fmt.Errorf("forget batches: %w", err)
	}
	return nil
}
