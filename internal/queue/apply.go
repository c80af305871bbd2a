package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/combine"
	"github.com/millrace-io/millrace/schemas/item"
)

// Apply makes a move of any number of items of a queue, in one transaction of
// two round trips, and returns a result for each command in their order.
// After an error nothing was done, or, when the connection broke at the very
// end, everything: asking again is safe, and answers Repeated for what was.
// Calls that come at the same time share a transaction: each one by itself would lock
// what they have in common, such as the row of their upload, until it is committed.
func (s *Store) Apply(ctx context.Context, q ID, move item.Move, commands []Command) ([]Result, error) {
	if by := trace.SpanContextFromContext(ctx); by.IsValid() && s.cfg.Tracer != nil {
		commands = slices.Clone(commands)
		for i := range commands {
			commands[i].by = by
		}
	}
	if slices.ContainsFunc(commands, unnumbered) {
		return s.ApplyAlso(ctx, q, move, commands, nil)
	}
	return s.moves.Do(ctx, lane{q, move}, commands)
}

// lane is where calls of Apply meet.
type lane struct {
	queue ID
	move  item.Move
}

// newLanes returns lanes for commands that name their items by number.
func newLanes[K comparable, R any](work combine.Work[K, Command, R]) *combine.Lanes[K, Command, R] {
	return &combine.Lanes[K, Command, R]{Work: work, Most: 1000, AtOnce: 2}
}

// unnumbered tells whether a command names its item in another way than by its number.
func unnumbered(c Command) bool { return c.ID == 0 }

// Lapse ends the leases of workers that were silent, as Run does when a lease is over.
func (s *Store) Lapse(ctx context.Context, q ID, commands []Command) ([]Result, error) {
	return s.apply(ctx, q, item.Expire, commands, nil)
}

// ApplyAlso is Apply with something that is written in the same transaction.
// also is told the results before anything is; its error undoes everything.
func (s *Store) ApplyAlso(
	ctx context.Context, q ID, move item.Move, commands []Command, also func([]Result, *pgx.Batch) error,
) ([]Result, error) {
	if move == item.Expire {
		return nil, errMove
	}
	return s.apply(ctx, q, move, commands, also)
}

func (s *Store) apply(
	ctx context.Context, q ID, move item.Move, commands []Command, also func([]Result, *pgx.Batch) error,
) ([]Result, error) {
	if len(commands) == 0 {
		return nil, nil
	}
	var results []Result
	what := fmt.Sprintf("%s %d items of queue %d", move, len(commands), q)
	err := s.Transact(ctx, what, func(t *Tx) error {
		w, err := t.Work(q, move)
		if err != nil {
			return err
		}
		if !w.allowed() {
			return errMove
		}
		w.selectCommands(commands, inOrder)
		if err := w.read(ctx); err != nil {
			return err
		}
		if results, err = w.Apply(ctx, commands); err != nil || also == nil {
			return err
		}
		return also(results, t.Batch)
	})
	return results, err
}

var errMove = errors.New("there is no such move in this queue")

// Work is what one transaction does in one queue.
type Work struct {
	*Tx
	queue    ID
	move     item.Move
	sql      *Statements
	kind     Kind
	settings settings
	rows     []row // locked
	changes  []change
	early    map[int64]time.Duration // how long items have to wait because of their key's rate
	entries  map[int64]bool          // items whose entries have left the outbox
	barred   map[int64]string        // see Barred; nil: not asked yet
}

// change is a row that moves.
type change struct {
	*row               // in the state after
	before  item.State // its state before
	command Command    // what was asked for
}

// settings are those switches of a queue that decide about moves.
type settings struct {
	name        string
	paused      bool
	concurrency int // 0: any
	perGroup    int // 0: any
	rate        Rate
	maxAttempts int32
	backoff     []float64 // seconds
	followed    bool
}

const sqlSettings = `SELECT name, paused, coalesce(concurrency, 0), coalesce(concurrency_per_group, 0),
	coalesce(rate_count, 0), coalesce(rate_per_s, 0), max_attempts, backoff_s, followed FROM millrace.stage WHERE stage = $1`

func (v *settings) scan(r pgx.Row) error {
	return r.Scan(&v.name, &v.paused, &v.concurrency, &v.perGroup, &v.rate.Count, &v.rate.PerS, &v.maxAttempts,
		&v.backoff, &v.followed)
}

// scanAny leaves the settings empty where the queue was deleted meanwhile, with all
// its items.
func (v *settings) scanAny(r pgx.Row) error {
	if err := v.scan(r); !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	return nil
}

// allowed tells whether the move is one that callers may ask for.
func (w *Work) allowed() bool {
	if w.sql.StatusOnly {
		return w.move == item.Complete || w.move == item.Cancel
	}
	return w.move >= item.Start && w.move <= item.Cancel
}

// Work begins what the transaction does in a queue.
func (t *Tx) Work(q ID, move item.Move) (*Work, error) {
	kind, err := t.store.kindOf(q)
	if err != nil {
		return nil, err
	}
	return &Work{Tx: t, queue: q, move: move, kind: kind, sql: kind.Statements(q)}, nil
}

// inOrder locks items in the one order that all transactions keep.
const inOrder = " ORDER BY t.id FOR NO KEY UPDATE OF t"

// Lock locks the items that meet a condition on the table t of
// Statements.Lock, and returns them with the outcome Repeated.
func (w *Work) Lock(ctx context.Context, condition string, args ...any) ([]Result, error) {
	collect(w.Batch, &w.rows, w.sql.Lock+" AND "+condition+inOrder, args...)
	if err := w.read(ctx); err != nil {
		return nil, err
	}
	results := make([]Result, len(w.rows))
	for i := range w.rows {
		results[i] = w.rows[i].result(item.Repeated)
	}
	return results, nil
}

// selectCommands queues the query for the rows that commands name.
func (w *Work) selectCommands(commands []Command, lock string) {
	selectCommands(w.Batch, &w.rows, w.sql, commands, lock)
}

func selectCommands(b *pgx.Batch, to *[]row, sql *Statements, commands []Command, lock string) {
	ids, names, parts := make([]int64, len(commands)), make([]string, len(commands)), make([]int32, len(commands))
	named := false
	for i, c := range commands {
		ids[i], names[i], parts[i] = c.ID, c.Name, c.Part
		named = named || c.ID == 0
	}
	if !named {
		collect(b, to, sql.Lock+" AND t.id = ANY ($1::bigint[])"+lock, ids)
		return
	}
	// Names become ids first: one order of locks for both.
	collect(b, to, sql.Lock+` AND t.id = ANY (ARRAY(
		SELECT n.id FROM unnest($1::bigint[], $2::text[], $3::integer[]) AS u (id, name, part),
		LATERAL (`+sql.Find+`) AS n))`+lock,
		ids, names, parts)
}

// read sends what has gathered and completes the rows. The settings are those that
// hold when the rows are locked: [Store.Set] relies on it.
func (w *Work) read(ctx context.Context) error {
	if !w.sql.StatusOnly {
		w.Batch.Queue(sqlSettings, w.queue).QueryRow(w.settings.scanAny)
	}
	if err := w.Flush(ctx); err != nil {
		return err
	}
	for i := range w.rows {
		if it := &w.rows[i].state; it.Allowed == 0 {
			it.Allowed = w.settings.maxAttempts
		}
	}
	return nil
}

// Apply decides about commands on rows that are locked, and queues what the
// changes write.
func (w *Work) Apply(ctx context.Context, commands []Command) ([]Result, error) {
	find := finder(w.rows, commands)
	room, err := w.room(ctx)
	if err != nil {
		return nil, err
	}
	if err := w.readRates(ctx); err != nil {
		return nil, err
	}
	if err := w.takeEntries(ctx, commands, find); err != nil {
		return nil, err
	}
	if err := w.readLapsed(ctx); err != nil {
		return nil, err
	}
	if _, err := w.Barred(ctx); err != nil {
		return nil, err
	}
	results := make([]Result, len(commands))
	changed := make(map[*row]bool, len(commands))
	for i, c := range commands {
		r := find(c)
		if r == nil {
			results[i] = Result{ID: c.ID, Name: c.Name, Part: c.Part, Outcome: item.NotFound}
			continue
		}
		results[i] = r.result(w.judge(r, c, changed, &room))
		if results[i].Outcome == item.Forbidden {
			results[i].Rule = w.barred[r.id]
		}
	}
	return results, w.write(ctx)
}

// Changed is the number of items that have moved.
func (w *Work) Changed() int { return len(w.changes) }

type itemName struct {
	name string
	part int32
}

// finder returns how to find the row of a command.
func finder(rows []row, commands []Command) func(Command) *row {
	ids := make(map[int64]*row, len(rows))
	names := map[itemName]*row{}
	named := slices.ContainsFunc(commands, func(c Command) bool { return c.ID == 0 })
	for i := range rows {
		r := &rows[i]
		ids[r.id] = r
		if named {
			names[itemName{r.name, r.part}] = r
		}
	}
	return func(c Command) *row {
		if c.ID != 0 {
			return ids[c.ID]
		}
		return names[itemName{c.Name, c.Part}]
	}
}

// judge decides about one command and notes the change.
func (w *Work) judge(r *row, c Command, changed map[*row]bool, room *int) item.Outcome {
	after, outcome := item.Decide(r.state, w.ask(r, c))
	if outcome != item.Changed {
		return outcome
	}
	fresh := w.move == item.Start && r.state.Status == item.New && !c.Has
	switch {
	case changed[r]:
		return item.Fenced // named twice, and changed by the first
	case w.barred[r.id] != "":
		return item.Forbidden
	case fresh && w.settings.paused:
		return item.Paused
	case fresh && (*room == 0 || c.Offered && w.settings.limited()):
		return item.Full
	case fresh && c.Offered && !w.entries[r.id]:
		return item.Fenced // its message may be with somebody else
	case fresh:
		*room--
	}
	changed[r] = true
	if c.Backoff {
		c.Delay = w.settings.wait(r.state.Attempts, c.Delay)
	}
	if c.Wait != nil {
		c.Delay = c.Wait(r.state.Attempts, c.Delay)
	}
	c.Delay = max(c.Delay, w.early[r.id])
	after.Lapsed = w.move == item.Expire
	w.changes = append(w.changes, change{row: r, before: r.state, command: c})
	r.state = after
	return item.Changed
}

// room is how many items may be started. Where that is limited, transactions
// that start items of the queue wait for each other here, so that each counts
// what the ones before have started.
func (w *Work) room(ctx context.Context) (int, error) {
	if w.move != item.Start || w.settings.concurrency == 0 || w.settings.paused {
		return math.MaxInt, nil
	}
	w.Batch.Queue("SELECT pg_advisory_xact_lock($1, $2)", lockClass, int32(w.queue))
	var started int
	w.Batch.Queue("SELECT coalesce(sum(n), 0)::bigint FROM ("+sqlSums+") AS t WHERE kind = $1",
		counter(w.queue, int32(item.Started))).
		QueryRow(func(r pgx.Row) error { return r.Scan(&started) })
	if err := w.Flush(ctx); err != nil {
		return 0, err
	}
	return max(0, w.settings.concurrency-started), nil
}

// lockClass is the first half of the keys of advisory locks of this package.
const lockClass int32 = 0x6d696c6c
