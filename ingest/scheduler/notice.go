package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Notice has every change of an item that is a run noted in its transaction (3). Each
// process that moves items calls it once, before it uses the queues.
func Notice(queues *queue.Store) { queues.OnMove(Queue, notice) }

// notice notes changes of items in run_change, if the items are runs. Finished items of a
// queue that is deleted change no run.
func notice(_ context.Context, t *queue.Tx, changes []queue.Change) error {
	var ids []int64
	var statuses []string
	for _, c := range changes {
		status := c.After.Status.String()
		if c.Deleted {
			if s := c.Before.Status; s != item.New && s != item.Started {
				continue
			}
			status = "deleted"
		}
		ids, statuses = append(ids, c.ID), append(statuses, status)
	}
	if len(ids) > 0 {
		t.Batch.Queue(text("notice"), ids, statuses)
	}
	return nil
}

// mendEvery is the time between two looks for changes that nobody has noted.
const mendEvery = time.Minute

// Mend notes changes of the items of open runs that were not noted when they were made: a
// process of an older release makes such ones while all are restarted, and so does whoever
// writes to Postgres by hand.
func (s *Scheduler) Mend(ctx context.Context) error {
	noted, err := s.queues.Queues().Pool().Exec(ctx, text("mend"))
	if err != nil {
		return fmt.Errorf("look for unnoted changes of runs: %w", err)
	}
	if n := noted.RowsAffected(); n > 0 {
		s.log.Warn("items of runs have changed, and nobody had noted it", "runs", n)
	}
	return nil
}
