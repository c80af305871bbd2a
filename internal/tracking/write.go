package tracking

import (
	"github.com/jackc/pgx/v5"

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

// writeRows updates pipeline_tracking.
func (w *work) writeRows() {
	n := len(w.changes)
	ids, statuses := make([]int64, n), make([]string, n)
	generations, attempts, allowed := make([]int32, n), make([]int32, n), make([]int32, n)
	workers, errs := make([]string, n), make([]string, n)
	for i, c := range w.changes {
		ids[i], statuses[i] = c.id, c.item.Status.String()
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
		case c.before.Status == shard.Started && c.item.Status != shard.Started:
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
	attempts := func(c change) int32 {
		if stage == w.stage {
			return c.item.Attempts
		}
		return 0
	}
	w.announce(stage, now, attempts)
}

// announce writes ready and outbox, and notes the entries.
func (w *work) announce(stage shard.Stage, p places, attempts func(change) int32) {
	w.batch.Queue(sqlTally, []int16{kindReady(stage)}, []int32{0}, []int64{int64(len(p.ids))})
	q := w.batch.Queue(sqlReady, int16(stage), p.ids, p.generations, p.priorities)
	if w.store.cfg.Ready == nil {
		return
	}
	byID := make(map[int64]int, len(p.ids))
	for i, id := range p.ids {
		byID[id] = i
	}
	q.Query(func(rows pgx.Rows) error {
		var outbox, id int64
		_, err := pgx.ForEachRow(rows, []any{&outbox, &id}, func() error {
			c := p.changes[byID[id]]
			w.entries = append(w.entries, Entry{
				ID: outbox, Item: id, Stage: stage, Generation: p.generations[byID[id]], Filename: c.filename, Shard: c.shard,
				Priority: c.priority, Attempts: attempts(c), CreatedAt: c.createdAt,
			})
			return nil
		})
		return err
	})
}

// record writes the history.
func (w *work) record() {
	n := len(w.changes)
	ids, attempts := make([]int64, n), make([]int32, n)
	statuses, workers, errs := make([]string, n), make([]string, n), make([]string, n)
	for i, c := range w.changes {
		ids[i], attempts[i], statuses[i] = c.id, c.item.Attempts, c.item.Status.String()
		workers[i], errs[i] = c.command.Worker, c.command.Error
		if workers[i] == "" && w.move != shard.Retry {
			workers[i] = c.item.Worker
		}
	}
	w.batch.Queue(sqlHistory, int16(w.stage), w.move.String(), ids, attempts, statuses, workers, errs)
}
