package itemindex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/stream"
)

// errOutdated is the error of a store whose rows are not those of ClickHouse, and which is
// made again.
var errOutdated = errors.New("the index is made again")

const (
	// idle is how long a follower waits before it asks for the projector's position again. If that has not
	// changed for idleFor, it waits for longIdle, or until a lookup finds that the index is behind.
	idle     = 50 * time.Millisecond
	longIdle = 500 * time.Millisecond
	idleFor  = time.Second
	// share is how many times as long as a copy takes the follower rests while batches are
	// stored.
	share = 9
	// batchSize is how many bytes are written at once.
	batchSize = 1 << 20
)

// follower brings a store up to the projector's position, again and again.
type follower struct {
	*Index
	store  *store
	looked time.Time // when the baseline was last compared; zero: never
	moved  time.Time // when the position was last found to have changed
}

type position = checkpoint.Record[struct{}]

// step does what there is to do, and returns how long to wait after that.
func (f *follower) step(ctx context.Context) (time.Duration, error) {
	at, err := f.position(ctx)
	if err != nil {
		return 0, err
	}
	if time.Since(f.looked) >= lookEvery {
		if unchanging, err := f.look(ctx, at); err != nil || !unchanging {
			return lookEvery, err
		}
	}
	f.mu.RLock()
	bad, used := f.bad, f.open != nil
	f.mu.RUnlock()
	switch {
	case bad != nil:
		return 0, fmt.Errorf("%w: %w", errDamaged, bad)
	case at.From < f.store.state.Applied:
		return 0, fmt.Errorf("%w: the position went back from %d to %d", errOutdated, f.store.state.Applied, at.From)
	case at.From == f.store.state.Applied && used:
		if time.Since(f.moved) > idleFor {
			return longIdle, f.store.found()
		}
		return idle, f.store.found()
	}
	begin := time.Now()
	f.moved = begin
	if err := f.follow(ctx, at.From); err != nil {
		return 0, err
	}
	if !used {
		f.applied.Store(f.store.state.Applied)
		f.use(f.store)
	}
	f.applied.Store(f.store.state.Applied)
	f.metrics.state(f.store)
	if now, err := f.position(ctx); err == nil && now.To == at.From {
		return idle, nil
	}
	return max(idle, share*time.Since(begin)), nil
}

// follow copies the rows that were stored up to a sequence.
func (f *follower) follow(ctx context.Context, upto uint64) error {
	next := f.store.state
	if upto == next.Applied {
		return nil
	}
	if err := f.copy(ctx, next.Applied+1, upto, &next); err != nil {
		return err
	}
	next.Applied = upto
	return f.store.save(next, false)
}

// baseline says of which rows an index is a copy.
type baseline struct {
	text     string
	rows     uint64
	changing uint64 // how many changes are under way
}

func (f *follower) baseline(ctx context.Context) (b baseline, err error) {
	str, err := f.deps.JetStream.Stream(ctx, stream.BatchesRead)
	if err != nil {
		return b, fmt.Errorf("read stream %s: %w", stream.BatchesRead, err)
	}
	var id, changes string
	if err := f.deps.ClickHouse.QueryRow(ctx, sqlBaseline).Scan(&id, &changes, &b.changing, &b.rows); err != nil {
		return b, fmt.Errorf("ask which outcomes there are: %w", err)
	}
	b.text = fmt.Sprintf("table %s, changes %s, stream %d", id, changes, str.CachedInfo().Created.UnixNano())
	return b, nil
}

// look compares the baseline, and fills a store that has none. It returns false while rows are
// being changed.
func (f *follower) look(ctx context.Context, at position) (bool, error) {
	now, err := f.baseline(ctx)
	if err != nil {
		return false, err
	}
	if now.changing > 0 {
		f.use(nil)
		return false, nil
	}
	if !f.store.filled {
		if err := f.fill(ctx, at, now); err != nil {
			return false, err
		}
	} else if err := f.compare(ctx, at, now); err != nil {
		return false, err
	}
	looked := time.Now()
	f.looked = looked
	f.Index.looked.Store(&looked)
	return true, nil
}

// compare returns errOutdated where the rows of the store are not those of ClickHouse.
func (f *follower) compare(ctx context.Context, at position, now baseline) error {
	has := f.store.state
	if has.Baseline != now.text {
		return fmt.Errorf("%w: it is of %s, and there is %s", errOutdated, has.Baseline, now.text)
	}
	resting := at.From == has.Applied && at.To == has.Applied
	if resting {
		again, err := f.position(ctx)
		if err != nil {
			return err
		}
		resting = again.To == at.To
	}
	if now.rows < has.Outcomes || resting && now.rows != has.Outcomes {
		return fmt.Errorf("%w: it has %d outcomes, and ClickHouse has %d", errOutdated, has.Outcomes, now.rows)
	}
	return nil
}

// fill copies all rows to an empty store.
func (f *follower) fill(ctx context.Context, at position, from baseline) error {
	begin := time.Now()
	next := state{Baseline: from.text, Applied: at.From}
	if err := f.copy(ctx, 0, math.MaxUint64, &next); err != nil {
		return err
	}
	now, err := f.baseline(ctx)
	if err != nil {
		return err
	}
	if now.text != from.text || now.changing > 0 {
		return fmt.Errorf("%w: outcomes were changed while it was made", errOutdated)
	}
	if err := f.store.save(next, true); err != nil {
		return err
	}
	f.log.Info("the index of items is made", "outcomes", next.Outcomes, "took", time.Since(begin))
	return nil
}

// copy writes the rows of a range of sequences, both ends included, and counts those in next.
// Rows that are there already are written again, and count once.
func (f *follower) copy(ctx context.Context, first, last uint64, next *state) error {
	rows, err := f.deps.ClickHouse.Query(ctx, sqlOutcomes, first, last)
	if err != nil {
		return fmt.Errorf("read outcomes: %w", err)
	}
	defer rows.Close()
	batch := f.store.db.NewBatch()
	defer batch.Close()
	var key, value []byte
	for rows.Next() {
		var r Row
		seq, err := r.scan(rows)
		if err != nil {
			return fmt.Errorf("read outcomes: %w", err)
		}
		key, value = r.key(key[:0]), r.value(value[:0])
		known := false
		if f.store.filled && seq <= f.store.state.Seen {
			if known, err = f.store.has(key); err != nil {
				return err
			}
		}
		if !known {
			next.Outcomes++
		}
		next.Seen = max(next.Seen, seq)
		if err := batch.Set(key, value, nil); err != nil {
			return fmt.Errorf("write outcomes to the index: %w", err)
		}
		if batch.Len() >= batchSize {
			if err := f.store.commit(batch); err != nil {
				return fmt.Errorf("write outcomes to the index: %w", err)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read outcomes: %w", err)
	}
	if err := f.store.commit(batch); err != nil {
		return fmt.Errorf("write outcomes to the index: %w", err)
	}
	return nil
}
