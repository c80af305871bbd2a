package main

import (
	"context"

	"github.com/millrace-io/millrace/ingest/scheduler"
)

// newScheduler returns what runs jobs when they are due; without the role, what
// waits. Items that are runs are moved in other roles, too.
func (n *node) newScheduler(r roles) (func(context.Context) error, error) {
	scheduler.Notice(n.ownQueues.Queues())
	if !r.Scheduler {
		return func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}, nil
	}
	s, err := scheduler.New(scheduler.Config{}, scheduler.Deps{Queues: n.ownQueues, Registry: n.registry, Log: n.log})
	if err != nil {
		return nil, err
	}
	return s.Run, nil
}
