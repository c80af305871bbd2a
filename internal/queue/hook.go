package queue

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace-io/millrace/schemas/item"
)

// Hook is told what items of one queue have changed, in the transaction that changes them.
// What it writes through t commits with the changes, and its error undoes them. It may be
// told the same changes again, when Postgres has the transaction tried again.
type Hook func(ctx context.Context, t *Tx, changes []Change) error

// OnMove calls a hook for every change of an item's state in a queue, whoever makes it: over
// HTTP or NATS, with the Go client, by the end of a lease, by mending, with a bulk action, or
// with the deletion of the queue. Items that are added, whose delay ends, or that are purged
// after their end make no change. Hooks of a queue are called in the order in which they were
// set. Set them in every process that moves items of the queue, before it uses the store.
func (s *Store) OnMove(queue string, do Hook) { s.hooks[queue] = append(s.hooks[queue], do) }

// OnFollowed calls a hook for every change in all queues whose settings say that they are followed, as OnMove does
// for one. It is told of the deletion of any queue. Set it in every process that moves items, before it uses the store.
func (s *Store) OnFollowed(do Hook) { s.follow = append(s.follow, do) }

// Hooked tells whether a system has set a hook for a queue of this name.
func (s *Store) Hooked(queue string) bool { return len(s.hooks[queue]) > 0 }

// Bar returns which of the items must not be brought back, each with the rule that says so. It changes nothing.
type Bar func(ctx context.Context, t *Tx, ids []int64) (map[int64]string, error)

// BarRetry has a system keep items of one queue from being brought back after they have failed, whoever asks for it: a
// worker would work for nothing on what has gone on without them. Call it as OnMove.
func (s *Store) BarRetry(queue string, bar Bar) { s.bars[queue] = append(s.bars[queue], bar) }

// BarFollowed is BarRetry for all queues whose settings say that they are followed.
func (s *Store) BarFollowed(bar Bar) { s.barFollow = append(s.barFollow, bar) }

// Barred returns which of the locked items must not be brought back, each with the rule. Other moves bar none.
func (w *Work) Barred(ctx context.Context) (map[int64]string, error) {
	if w.move != item.Retry || w.barred != nil {
		return w.barred, nil
	}
	var ids []int64
	for _, r := range w.rows {
		if r.state.Status == item.Failed {
			ids = append(ids, r.id)
		}
	}
	var err error
	w.barred, err = w.bar(ctx, ids)
	return w.barred, err
}

func (w *Work) bar(ctx context.Context, ids []int64) (map[int64]string, error) {
	bars, all := w.store.bars[w.settings.name], map[int64]string{}
	if w.settings.followed {
		bars = slices.Concat(bars, w.store.barFollow)
	}
	if len(ids) == 0 {
		return all, nil
	}
	for _, bar := range bars {
		some, err := bar(ctx, w.Tx, ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, some)
	}
	return all, nil
}

// stayed asks for the bars once more when all locks are held: what an item is about may have gone on meanwhile.
func (w *Work) stayed(ctx context.Context) error {
	if w.move != item.Retry {
		return nil
	}
	barred, err := w.bar(ctx, w.ids())
	if err == nil && len(barred) > 0 {
		err = ErrAgain
	}
	return err
}

// moved calls the hooks of a queue.
func (t *Tx) moved(ctx context.Context, queue string, followed bool, changes []Change) error {
	all := t.store.hooks[queue]
	if followed {
		all = slices.Concat(all, t.store.follow)
	}
	for _, do := range all {
		if err := do(ctx, t, changes); err != nil {
			return err
		}
	}
	return nil
}
