package queue

import (
	"context"
	"slices"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// write queues what the changes do to every table, and what follows from them.
func (w *Work) write(ctx context.Context) error {
	if len(w.changes) == 0 {
		return nil
	}
	w.writeRows()
	w.leave()
	w.enter()
	w.record()
	w.trace()
	changes := w.follow()
	w.limit()
	if err := w.moved(ctx, w.settings.name, w.settings.followed, changes); err != nil {
		return err
	}
	return w.stayed(ctx)
}

// uniform tells whether all changes have the same status, and commands with
// the same worker and error, as those of one worker have.
func (w *Work) uniform() bool {
	first := w.changes[0]
	return !slices.ContainsFunc(w.changes, func(c change) bool {
		return c.state.Status != first.state.Status || c.state.Worker != first.state.Worker ||
			c.command.Worker != first.command.Worker || c.command.Error != first.command.Error
	})
}

func (w *Work) ids() []int64 {
	ids := make([]int64, len(w.changes))
	for i, c := range w.changes {
		ids[i] = c.id
	}
	return ids
}

// writeRows updates the items' own table.
func (w *Work) writeRows() {
	usual := w.uniform() && w.changes[0].command.Error == ""
	switch {
	case usual && w.move == item.Start && w.sql.Start != "":
		w.Batch.Queue(w.sql.Start, w.ids(), w.changes[0].state.Worker)
	case usual && w.move == item.Complete && w.sql.Done != "":
		w.Batch.Queue(w.sql.Done, w.ids())
	default:
		w.writeAny()
	}
}

func (w *Work) writeAny() {
	n := len(w.changes)
	ids, statuses := w.ids(), make([]string, n)
	generations, attempts, allowed := make([]int32, n), make([]int32, n), make([]int32, n)
	workers, errs := make([]string, n), make([]string, n)
	for i, c := range w.changes {
		statuses[i] = c.state.Status.String()
		generations[i], attempts[i], workers[i], errs[i] = c.state.Generation, c.state.Attempts, c.state.Worker,
			c.command.Error
		if c.state.Allowed != w.settings.maxAttempts {
			allowed[i] = c.state.Allowed
		}
	}
	if w.sql.StatusOnly {
		w.Batch.Queue(w.sql.Write, ids, statuses)
		return
	}
	w.Batch.Queue(w.sql.Write, ids, statuses, generations, attempts, allowed, workers, errs, w.move == item.Start)
}

// leave takes items out of the tables that their states had put them in.
func (w *Work) leave() {
	if w.sql.StatusOnly {
		return
	}
	var unready, unclaim, unfail []int64
	var priorities []int16
	for _, c := range w.changes {
		switch {
		case c.before.Status == item.New && c.queued:
			unready, priorities = append(unready, c.id), append(priorities, c.priority)
		case c.before.Status == item.Started:
			unclaim = append(unclaim, c.id)
		case c.before.Status == item.Failed:
			unfail = append(unfail, c.id)
		}
	}
	if len(unready) > 0 {
		w.Batch.Queue(sqlUnready, w.queue, unready, priorities)
		w.Batch.Queue(sqlUndelay, w.queue, unready)
	}
	if len(unclaim) > 0 {
		w.Batch.Queue(sqlUnclaim, w.queue, unclaim)
	}
	if len(unfail) > 0 {
		w.Batch.Queue(sqlUnfail, w.queue, unfail)
	}
}

// enter puts items into the tables that they belong in.
func (w *Work) enter() {
	var claims, fails places
	readies := map[ID]*places{}
	ready := func(q ID, c change, generation int32) {
		if readies[q] == nil {
			readies[q] = &places{}
		}
		readies[q].add(c, generation)
	}
	for _, c := range w.changes {
		switch c.state.Status {
		case item.Started:
			claims.add(c, c.state.Generation)
			claims.plain = append(claims.plain, c.state.Worker == stream.PlainWorker)
		case item.Failed:
			fails.add(c, 0)
			fails.dead = append(fails.dead, w.dead(c))
		case item.New:
			if c.queued {
				ready(w.queue, c, c.state.Generation)
			}
		case item.Done:
			if c.next != 0 {
				ready(c.next, c, c.nextGeneration)
			}
		}
	}
	if n := len(claims.ids); n > 0 {
		w.Batch.Queue(sqlClaim, w.queue, claims.ids, claims.generations, claims.leases, claims.plain)
	}
	if n := len(fails.ids); n > 0 && !w.sql.StatusOnly {
		w.Batch.Queue(sqlFail, w.queue, fails.ids, fails.dead)
	}
	for q, all := range readies {
		w.makeReady(q, *all)
	}
}

// places are rows of one of the small tables.
type places struct {
	changes     []change
	ids         []int64
	generations []int32
	priorities  []int16
	leases      []int64 // milliseconds
	dead        []bool
	plain       []bool // a plain daemon has it
}

func (p *places) add(c change, generation int32) {
	p.changes = append(p.changes, c)
	p.ids, p.generations = append(p.ids, c.id), append(p.generations, generation)
	p.priorities, p.leases = append(p.priorities, c.priority), append(p.leases, c.command.Lease.Milliseconds())
}

// makeReady puts items into a queue, at once or later.
func (w *Work) makeReady(q ID, all places) {
	var now, later places
	var delays []int64
	for i, c := range all.changes {
		if c.command.Delay <= 0 {
			now.add(c, all.generations[i])
		} else {
			later.add(c, all.generations[i])
			delays = append(delays, c.command.Delay.Milliseconds())
		}
	}
	if n := len(later.ids); n > 0 {
		w.Batch.Queue(sqlDelay, q, later.ids, later.generations, delays)
		w.Batch.Queue(sqlTally, []int32{counter(q, countDelayed)}, []int32{0}, []int64{int64(n)})
	}
	if len(now.ids) > 0 {
		w.announce(q, now)
	}
}

// announce writes ready and outbox.
func (w *Work) announce(q ID, p places) {
	w.Batch.Queue(sqlTally, []int32{counter(q, countReady)}, []int32{0}, []int64{int64(len(p.ids))})
	w.Batch.Queue(sqlReady, q, p.ids, p.generations, p.priorities)
	w.Batch.Queue(sqlOutbox, q, p.ids, p.generations, p.priorities)
	w.announced = true
}

// record writes the history.
func (w *Work) record() {
	n := len(w.changes)
	ids, attempts := w.ids(), make([]int32, n)
	statuses, workers, errs := make([]string, n), make([]string, n), make([]string, n)
	for i, c := range w.changes {
		attempts[i], statuses[i] = c.state.Attempts, c.state.Status.String()
		workers[i], errs[i] = c.command.Worker, c.command.Error
		if workers[i] == "" && w.move != item.Retry {
			workers[i] = c.state.Worker
		}
	}
	if w.uniform() {
		w.Batch.Queue(sqlSame, w.queue, w.move.String(), ids, attempts, statuses[0], workers[0], errs[0])
		return
	}
	w.Batch.Queue(sqlHistory, w.queue, w.move.String(), ids, attempts, statuses, workers, errs)
}
