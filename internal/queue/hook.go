package queue

import (
	"context"
	"slices"
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
