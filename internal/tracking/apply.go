package tracking

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/shard"
)

// Apply makes a move of any number of items at a stage, in one transaction of
// two round trips, and returns a result for each command in their order.
// After an error nothing was done, or, when the connection broke at the very
// end, everything: asking again is safe, and answers Repeated for what was.
func (s *Store) Apply(ctx context.Context, stage shard.Stage, move shard.Move, commands []Command) ([]Result, error) {
	return s.ApplyAlso(ctx, stage, move, commands, nil)
}

// ApplyAlso is Apply with something that is written in the same transaction.
// also is told the results before anything is; its error undoes everything.
func (s *Store) ApplyAlso(ctx context.Context, stage shard.Stage, move shard.Move, commands []Command, also func([]Result, *pgx.Batch) error) ([]Result, error) {
	if err := checkApply(stage, move); err != nil || len(commands) == 0 {
		return nil, err
	}
	var results []Result
	err := s.transact(ctx, fmt.Sprintf("%s %d items at %s", move, len(commands), stage), func(t *tx) error {
		w := s.newWork(t, stage, move)
		selectCommands(t.batch, &w.rows, stage, commands, inOrder)
		if err := w.read(ctx); err != nil {
			return err
		}
		var err error
		if results, err = w.decide(ctx, commands); err != nil {
			return err
		}
		w.write()
		if also != nil {
			return also(results, t.batch)
		}
		return nil
	})
	return results, err
}

var errMove = errors.New("shard tracking: no such move at this stage")

// checkApply finds moves that are not commands.
func checkApply(stage shard.Stage, move shard.Move) error {
	switch {
	case stage == shard.EventIngest && (move == shard.Complete || move == shard.Cancel):
	case stage.HasQueue() && move >= shard.Start && move <= shard.Cancel && move != shard.Expire:
	default:
		return errMove
	}
	return nil
}

// work is what one transaction does at one stage.
type work struct {
	*tx
	store    *Store
	stage    shard.Stage
	move     shard.Move
	settings settings
	rows     []row // locked
	changes  []change
	inReady  bool // what is new is known to be in ready, and not in delayed
}

// change is a row that moves.
type change struct {
	*row               // in the state after
	before  shard.Item // its state before
	command Command    // what was asked for
}

// settings are the switches of a stage.
type settings struct {
	paused      bool
	concurrency int // 0: any
	maxAttempts int32
}

func (s *Store) newWork(t *tx, stage shard.Stage, move shard.Move) *work {
	w := &work{tx: t, store: s, stage: stage, move: move}
	if stage.HasQueue() {
		t.batch.Queue("SELECT paused, coalesce(concurrency, 0), max_attempts FROM millrace.stage WHERE stage = $1", int16(stage)).
			QueryRow(func(r pgx.Row) error {
				return r.Scan(&w.settings.paused, &w.settings.concurrency, &w.settings.maxAttempts)
			})
	}
	return w
}

// inOrder locks items in the one order that all transactions keep.
const inOrder = " ORDER BY t.id FOR NO KEY UPDATE OF t"

// selectCommands queues the query for the rows that commands name.
func selectCommands(b *pgx.Batch, to *[]row, stage shard.Stage, commands []Command, lock string) {
	var ids []int64
	var names []string
	var shards []int32
	for _, c := range commands {
		if c.ID != 0 {
			ids = append(ids, c.ID)
		} else {
			names, shards = append(names, c.Filename), append(shards, c.Shard)
		}
	}
	if len(names) == 0 {
		collect(b, to, stages[stage].lock+"WHERE t.id = ANY ($1::bigint[])"+lock, ids)
		return
	}
	// Names become ids first: one order of locks for both.
	collect(b, to, stages[stage].lock+`WHERE t.id = ANY (ARRAY(
		SELECT n.id FROM unnest($1::text[], $2::integer[]) AS u (filename, shard)
		JOIN millrace.pipeline_tracking AS n ON n.filename = u.filename AND n.shard = u.shard
		UNION SELECT unnest($3::bigint[])))`+lock, names, shards, ids)
}

// read sends what has gathered and completes the rows.
func (w *work) read(ctx context.Context) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	for i := range w.rows {
		if it := &w.rows[i].item; it.Allowed == 0 {
			it.Allowed = w.settings.maxAttempts
		}
	}
	return nil
}

type itemName struct {
	filename string
	shard    int32
}

// decide finds each command's row and judges it.
func (w *work) decide(ctx context.Context, commands []Command) ([]Result, error) {
	find := w.finder(commands)
	room, err := w.room(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(commands))
	changed := make(map[*row]bool, len(commands))
	for i, c := range commands {
		r := find(c)
		if r == nil {
			results[i] = Result{ID: c.ID, Filename: c.Filename, Shard: c.Shard, Outcome: shard.NotFound}
			continue
		}
		results[i] = r.result(w.judge(r, c, changed, &room))
	}
	return results, nil
}

// finder returns how to find the row of a command.
func (w *work) finder(commands []Command) func(Command) *row {
	ids := make(map[int64]*row, len(w.rows))
	names := map[itemName]*row{}
	named := slices.ContainsFunc(commands, func(c Command) bool { return c.ID == 0 })
	for i := range w.rows {
		r := &w.rows[i]
		ids[r.id] = r
		if named {
			names[itemName{r.filename, r.shard}] = r
		}
	}
	return func(c Command) *row {
		if c.ID != 0 {
			return ids[c.ID]
		}
		return names[itemName{c.Filename, c.Shard}]
	}
}

// judge decides about one command and notes the change.
func (w *work) judge(r *row, c Command, changed map[*row]bool, room *int) shard.Outcome {
	after, outcome := shard.Decide(r.item, shard.Ask{Move: w.move, Generation: c.Generation, Worker: c.Worker, Takeover: c.Takeover})
	if outcome != shard.Changed {
		return outcome
	}
	fresh := w.move == shard.Start && r.item.Status == shard.New && !c.Has
	switch {
	case changed[r]:
		return shard.Fenced // named twice, and changed by the first
	case fresh && w.settings.paused:
		return shard.Paused
	case fresh && *room == 0:
		return shard.Full
	case fresh:
		*room--
	}
	changed[r] = true
	w.changes = append(w.changes, change{row: r, before: r.item, command: c})
	r.item = after
	return shard.Changed
}

// room is how many items may be started. Where it is limited, transactions
// that start items at the stage wait for each other here, so that each counts
// what the ones before have started.
func (w *work) room(ctx context.Context) (int, error) {
	if w.move != shard.Start || w.settings.concurrency == 0 || w.settings.paused {
		return math.MaxInt, nil
	}
	w.batch.Queue("SELECT pg_advisory_xact_lock($1, $2)", lockClass, int32(w.stage))
	var started int
	w.batch.Queue("SELECT coalesce(sum(n), 0)::bigint FROM ("+sqlSums+") AS t WHERE kind = $1", kindOf(w.stage, shard.Started)).
		QueryRow(func(r pgx.Row) error { return r.Scan(&started) })
	if err := w.flush(ctx); err != nil {
		return 0, err
	}
	return max(0, w.settings.concurrency-started), nil
}

// lockClass is the first half of the keys of advisory locks of this package.
const lockClass int32 = 0x6d696c6c
