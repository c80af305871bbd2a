package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
)

// batchSize is how many messages are decided at once.
const batchSize = 1000

// ref is what a message is about.
type ref = queue.Ref

// block is a run of messages of the stream WORK whose sequences are decided.
type block struct {
	First uint64
	Refs  []ref
}

func (b *block) last() uint64 { return b.First + uint64(len(b.Refs)) - 1 }

func (b *block) holds(seq uint64) bool { return seq >= b.First && seq <= b.last() }

// blocks tells which item a message is about. It keeps the newest blocks in memory.
type blocks struct {
	pool *pgxpool.Pool
	mu   sync.Mutex
	kept []*block // by First
}

// keptBlocks bounds that memory, to about 24 MB.
const keptBlocks = 1500

func newBlocks(pool *pgxpool.Pool) *blocks { return &blocks{pool: pool} }

func (b *blocks) keep(n *block) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i, found := slices.BinarySearchFunc(b.kept, n.First, func(k *block, first uint64) int {
		return cmp.Compare(k.First, first)
	})
	if found {
		return
	}
	b.kept = slices.Insert(b.kept, i, n)
	if len(b.kept) > keptBlocks {
		b.kept = slices.Delete(b.kept, 0, 1)
	}
}

// find returns what each message is about. Messages that no block has are absent.
func (b *blocks) find(ctx context.Context, seqs []uint64) (map[uint64]ref, error) {
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

func (b *blocks) look(seqs []uint64, found map[uint64]ref) (missing []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, seq := range seqs {
		i, exact := slices.BinarySearchFunc(b.kept, seq, func(k *block, seq uint64) int {
			return cmp.Compare(k.First, seq)
		})
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

const sqlBlock = "SELECT first_seq, items, stages, generations FROM millrace.work_batch "

// load reads the blocks of up to batchSize messages.
func (b *blocks) load(ctx context.Context, seqs []uint64) ([]*block, error) {
	asked := make([]int64, 0, min(len(seqs), batchSize))
	for _, seq := range seqs[:cap(asked)] {
		asked = append(asked, int64(seq))
	}
	rows, _ := b.pool.Query(ctx, sqlBlock+`WHERE first_seq = ANY (ARRAY(
		SELECT (SELECT max(w.first_seq) FROM millrace.work_batch AS w WHERE w.first_seq <= u.seq)
		FROM unnest($1::bigint[]) AS u (seq)))`, asked)
	return dbpool.Collect(rows, scanBlock, "read decided blocks")
}

// newest returns the block that was decided last, or nil.
func (b *blocks) newest(ctx context.Context) (*block, error) {
	rows, _ := b.pool.Query(ctx, sqlBlock+"ORDER BY first_seq DESC LIMIT 1")
	found, err := pgx.CollectExactlyOneRow(rows, scanBlock)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the last decided block: %w", err)
	}
	return found, nil
}

func scanBlock(row pgx.CollectableRow) (*block, error) {
	var first int64
	var items []int64
	var queues []int16
	var generations []int32
	if err := row.Scan(&first, &items, &queues, &generations); err != nil {
		return nil, err
	}
	b := &block{First: uint64(first), Refs: make([]ref, len(items))}
	for i := range items {
		b.Refs[i] = ref{Item: items[i], Queue: queue.ID(queues[i]), Generation: generations[i]}
	}
	return b, nil
}

// drop deletes blocks without messages on the stream, an hour after they were
// decided: until then an answer may come. The newest block stays.
func (b *blocks) drop(ctx context.Context, before uint64) error {
	_, err := b.pool.Exec(ctx, `DELETE FROM millrace.work_batch WHERE last_seq < $1
		AND decided_at < now() - interval '1 hour'
		AND first_seq < (SELECT max(first_seq) FROM millrace.work_batch)`, int64(before))
	if err != nil {
		return fmt.Errorf("delete blocks: %w", err)
	}
	return nil
}
