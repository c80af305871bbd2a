package tracking

import (
	"slices"

	"github.com/millrace-io/millrace/schemas/shard"
)

// write queues what the changes do to every table.
func (w *work) write() {
	if len(w.changes) == 0 {
		return
	}
	w.writeRows()
	w.leave()
	w.enter()
	w.record()
	w.count()
}

// uniform tells whether all changes have the same status, and commands with
// the same worker and error, as those of one worker have.
func (w *work) uniform() bool {
	first := w.changes[0]
	return !slices.ContainsFunc(w.changes, func(c change) bool {
		return c.item.Status != first.item.Status || c.item.Worker != first.item.Worker ||
			c.command.Worker != first.command.Worker || c.command.Error != first.command.Error
	})
}

func (w *work) ids() []int64 {
	ids := make([]int64, len(w.changes))
	for i, c := range w.changes {
		ids[i] = c.id
	}
	return ids
}

// writeRows updates pipeline_tracking.
func (w *work) writeRows() {
	plain := w.uniform() && w.changes[0].command.Error == "" && w.stage != shard.EventIngest
	switch {
	case plain && w.move == shard.Start:
		w.batch.Queue(stages[w.stage].start, w.ids(), w.changes[0].item.Worker)
	case plain && w.move == shard.Complete:
		w.batch.Queue(stages[w.stage].done, w.ids())
	default:
		w.writeAny()
	}
}

func (w *work) writeAny() {
	n := len(w.changes)
	ids, statuses := w.ids(), make([]string, n)
	generations, attempts, allowed := make([]int32, n), make([]int32, n), make([]int32, n)
	workers, errs := make([]string, n), make([]string, n)
	for i, c := range w.changes {
		statuses[i] = c.item.Status.String()
		generations[i], attempts[i], workers[i], errs[i] = c.item.Generation, c.item.Attempts, c.item.Worker, c.command.Error
		if c.item.Allowed != w.settings.maxAttempts {
			allowed[i] = c.item.Allowed
		}
	}
	if w.stage == shard.EventIngest {
		w.batch.Queue(stages[w.stage].write, ids, statuses)
		return
	}
	w.batch.Queue(stages[w.stage].write, ids, statuses, generations, attempts, allowed, workers, errs, w.move == shard.Start)
}

// leave takes items out of the tables that they stand in.
func (w *work) leave() {
	var unready, unclaim, unfail []int64
	var priorities []int16
	for _, c := range w.changes {
		switch {
		case c.before.Status == shard.New && c.prev == shard.Done:
			unready, priorities = append(unready, c.id), append(priorities, c.priority)
		case c.before.Status == shard.Started:
			unclaim = append(unclaim, c.id)
		case c.before.Status == shard.Failed:
			unfail = append(unfail, c.id)
		}
	}
	if w.stage == shard.EventIngest {
		return // no queue, no claims
	}
	stage := int16(w.stage)
	if len(unready) > 0 {
		w.batch.Queue(sqlUnready, stage, unready, priorities)
		if !w.inReady {
			w.batch.Queue(sqlUndelay, stage, unready)
		}
	}
	if len(unclaim) > 0 {
		w.batch.Queue(sqlUnclaim, stage, unclaim)
	}
	if len(unfail) > 0 {
		w.batch.Queue(sqlUnfail, stage, unfail)
	}
}

// enter puts items into the tables that they belong in.
func (w *work) enter() {
	var claims, fails, readies places
	next, _ := w.stage.Next()
	for _, c := range w.changes {
		switch c.item.Status {
		case shard.Started:
			claims.add(c, c.item.Generation)
		case shard.Failed:
			fails.add(c, 0)
			fails.dead = append(fails.dead, c.item.Dead() || w.move == shard.Cancel)
		case shard.New:
			if c.prev == shard.Done {
				readies.add(c, c.item.Generation)
			}
		case shard.Done:
			if c.next == shard.New {
				readies.add(c, c.nextGeneration)
			}
		}
	}
	stage := w.stage
	if w.move == shard.Complete {
		stage = next
	}
	if w.stage != shard.EventIngest {
		if n := len(claims.ids); n > 0 {
			w.batch.Queue(sqlClaim, int16(w.stage), claims.ids, claims.generations, claims.leases)
		}
		if n := len(fails.ids); n > 0 {
			w.batch.Queue(sqlFail, int16(w.stage), fails.ids, fails.dead)
		}
	}
	w.queue(stage, readies)
}

// places are rows of one of the small tables.
type places struct {
	changes     []change
	ids         []int64
	generations []int32
	priorities  []int16
	leases      []int64 // milliseconds
	dead        []bool
}

func (p *places) add(c change, generation int32) {
	p.changes = append(p.changes, c)
	p.ids, p.generations = append(p.ids, c.id), append(p.generations, generation)
	p.priorities, p.leases = append(p.priorities, c.priority), append(p.leases, c.command.Lease.Milliseconds())
}

// queue makes items ready, at once or later.
func (w *work) queue(stage shard.Stage, all places) {
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
		w.batch.Queue(sqlDelay, int16(stage), later.ids, later.generations, delays)
		w.batch.Queue(sqlTally, []int16{kindDelayed(stage)}, []int32{0}, []int64{int64(n)})
	}
	if len(now.ids) == 0 {
		return
	}
	w.announce(stage, now)
}

// announce writes ready and outbox.
func (w *work) announce(stage shard.Stage, p places) {
	w.batch.Queue(sqlTally, []int16{kindReady(stage)}, []int32{0}, []int64{int64(len(p.ids))})
	w.batch.Queue(sqlReady, int16(stage), p.ids, p.generations, p.priorities)
	w.batch.Queue(sqlOutbox, int16(stage), p.ids, p.generations)
	w.announced = true
}

// record writes the history.
func (w *work) record() {
	n := len(w.changes)
	ids, attempts := w.ids(), make([]int32, n)
	statuses, workers, errs := make([]string, n), make([]string, n), make([]string, n)
	for i, c := range w.changes {
		attempts[i], statuses[i] = c.item.Attempts, c.item.Status.String()
		workers[i], errs[i] = c.command.Worker, c.command.Error
		if workers[i] == "" && w.move != shard.Retry {
			workers[i] = c.item.Worker
		}
	}
	if w.uniform() {
		w.batch.Queue(sqlSame, int16(w.stage), w.move.String(), ids, attempts, statuses[0], workers[0], errs[0])
		return
	}
	w.batch.Queue(sqlHistory, int16(w.stage), w.move.String(), ids, attempts, statuses, workers, errs)
}
