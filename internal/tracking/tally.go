package tracking

import "github.com/millrace-io/millrace/schemas/shard"

// Kinds of counters. Those of a stage are ten times its number and more, with
// the key 0; those of shards have the shard as their key.
const (
	kindTotal  int16 = 100 // items of a shard
	kindDone   int16 = 101 // done at the last stage
	kindFailed int16 = 102 // failed at the last stage
)

func kindOf(s shard.Stage, status shard.Status) int16 { return int16(s)*10 + int16(status) }
func kindReady(s shard.Stage) int16                   { return int16(s)*10 + 4 }
func kindDelayed(s shard.Stage) int16                 { return int16(s)*10 + 5 }
func kindDead(s shard.Stage) int16                    { return int16(s)*10 + 6 }

const sqlSums = "SELECT kind, key, n FROM millrace.tally UNION ALL SELECT kind, key, n FROM millrace.tally_delta"

// deltas are what a transaction adds to counters.
type deltas map[delta]int64

type delta struct {
	kind int16
	key  int32
}

func (d deltas) add(kind int16, key int32, n int64) { d[delta{kind, key}] += n }

// queue adds the statement that writes them.
func (d deltas) queue(t *tx) {
	kinds, keys, ns := make([]int16, 0, len(d)), make([]int32, 0, len(d)), make([]int64, 0, len(d))
	for k, n := range d {
		if n != 0 {
			kinds, keys, ns = append(kinds, k.kind), append(keys, k.key), append(ns, n)
		}
	}
	if len(kinds) > 0 {
		t.batch.Queue(sqlTally, kinds, keys, ns)
	}
}

// count writes what the changes add to the counters. What stands in ready and
// in delayed is counted where it changes.
func (w *work) count() {
	d := deltas{}
	for _, c := range w.changes {
		from, to := c.before.Status, c.item.Status
		d.add(kindOf(w.stage, from), 0, -1)
		d.add(kindOf(w.stage, to), 0, +1)
		if to == shard.Failed && (c.item.Dead() || w.move == shard.Cancel) && w.stage != shard.EventIngest {
			d.add(kindDead(w.stage), 0, +1)
		}
		if w.stage == shard.Sender {
			d.shard(c.shard, from, -1)
			d.shard(c.shard, to, +1)
		}
	}
	d.queue(w.tx)
}

// shard counts an item at the last stage.
func (d deltas) shard(key int32, status shard.Status, n int64) {
	switch status {
	case shard.Done:
		d.add(kindDone, key, n)
	case shard.Failed:
		d.add(kindFailed, key, n)
	}
}
