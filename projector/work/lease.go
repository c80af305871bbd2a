package work

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/item"
)

// lease is how long a worker has an item of a queue that it pulled and says nothing of.
// The consumer of the queue has it as its ack_wait.
func (c Config) lease(of queue.Settings) time.Duration {
	if s := of.Lease(); s > 0 {
		return item.Seconds(s)
	}
	return c.Streams.AckWait
}

// leases are those of all queues by their names, as they were read last.
type leases struct {
	all atomic.Pointer[map[string]time.Duration]
}

// leasesEvery is how often leases are read. A queue that is new has the default until then.
const leasesEvery = time.Second

// follow reads leases until ctx ends. While Postgres is away, they stay as they were.
func (l *leases) follow(ctx context.Context, cfg Config, store *queue.Store) error {
	return retry.Every(ctx, leasesEvery, func(ctx context.Context) error { return l.read(ctx, cfg, store) }, func(error) {})
}

func (l *leases) read(ctx context.Context, cfg Config, store *queue.Store) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	queues, err := store.Queues(ctx)
	if err != nil {
		return err
	}
	all := make(map[string]time.Duration, len(queues))
	for _, v := range queues {
		all[v.Name] = cfg.lease(v)
	}
	l.all.Store(&all)
	return nil
}

// of returns how to find the lease of a queue.
func (l *leases) of(cfg Config) func(queue string) time.Duration {
	return func(queue string) time.Duration {
		if all := l.all.Load(); all != nil {
			if lease, ok := (*all)[queue]; ok {
				return lease
			}
		}
		return cfg.Streams.AckWait
	}
}
