package queue

import "context"

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

// moved calls the hooks of a queue.
func (t *Tx) moved(ctx context.Context, queue string, changes []Change) error {
	for _, do := range t.store.hooks[queue] {
		if err := do(ctx, t, changes); err != nil {
			return err
		}
	}
	return nil
}
