package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"
)

// limited tells whether the queue counts what is out.
func (v *settings) limited() bool { return v.concurrency > 0 || v.perGroup > 0 }

// limit queues what the changes do to the limits of the queue.
func (w *Work) limit() {
	if w.sql.Limits == "" {
		return
	}
	var out, in, started []int64
	for _, c := range w.changes {
		switch {
		case c.state.Status != item.Started:
			in = append(in, c.id)
		default:
			out = append(out, c.id)
			if c.before.Status == item.New {
				started = append(started, c.id)
			}
		}
	}
	if w.settings.rate.Count > 0 && len(started) > 0 {
		w.Batch.Queue(w.sql.keyStarted, w.queue, started)
	}
	if !w.settings.limited() {
		return
	}
	if len(out) > 0 {
		w.Batch.Queue(w.sql.slotsOut, w.queue, out)
	}
	if len(in) > 0 {
		w.announced = true // there may be room for others
		w.Batch.Queue(text("slots_in"), w.queue, in)
		w.Batch.Queue(w.sql.lockGroups, w.queue, in)
		w.Batch.Queue(w.sql.unpark, w.queue, in)
	}
}

// readRates reads how long items have to wait that go back to their queue, where
// a key has a rate. A key has one live item: nobody else starts one meanwhile.
func (w *Work) readRates(ctx context.Context) error {
	rate := w.settings.rate
	back := w.move == item.Release || w.move == item.Again || w.move == item.Retry || w.move == item.Expire
	if rate.Count == 0 || !back || w.sql.Limits == "" {
		return nil
	}
	ids := make([]int64, len(w.rows))
	for i, r := range w.rows {
		ids[i] = r.id
	}
	w.early = map[int64]time.Duration{}
	w.Batch.Queue(w.sql.keyDue, w.queue, ids, rate.PerS, rate.Count).Query(func(rows pgx.Rows) error {
		var id, ms int64
		_, err := pgx.ForEachRow(rows, []any{&id, &ms}, func() error {
			w.early[id] = time.Duration(ms) * time.Millisecond
			return nil
		})
		return err
	})
	return w.Flush(ctx)
}

// Admission is what becomes of an entry of the outbox.
type Admission int

// The admissions.
const (
	Out    Admission = iota // its item may be handed out, and counts from now on
	Parked                  // its group is full: it comes back to the outbox
	Waits                   // its queue is full: it stays in the outbox
)

// Admit decides in a transaction of the caller which of the entries of a queue,
// in their order, may be published. Until the transaction has ended nobody
// else's items of these groups come in or go out. The caller takes the entries
// that do not wait out of the outbox in the same transaction. A message may be
// handed out to anybody, so this is where limits are held whoever takes. The
// entries of the items in stale are dropped: others come back in their place.
func (s *Store) Admit(ctx context.Context, tx pgx.Tx, q ID, entries []Entry, stale []int64) ([]Admission, error) {
	admissions := make([]Admission, len(entries))
	kind, err := s.kindOf(q)
	if err != nil || kind.Statements(q).Limits == "" {
		return admissions, err
	}
	a := admitter{queue: q, sql: kind.Statements(q)}
	if err := a.read(ctx, tx, entries, stale); err != nil || !a.settings.limited() {
		return admissions, err
	}
	for i, e := range entries {
		admissions[i] = a.admit(e)
	}
	return admissions, a.write(ctx, tx, stale)
}

// admitter decides about the entries of one queue.
type admitter struct {
	queue    ID
	sql      *Statements
	settings settings
	out      int              // of the queue
	groups   map[int64]string // by item
	used     map[string]int   // by group
	admitted []int64
	parked   []Entry
}

func (a *admitter) read(ctx context.Context, tx pgx.Tx, entries []Entry, stale []int64) error {
	err := a.settings.scanAny(tx.QueryRow(ctx, sqlSettings+" FOR SHARE", a.queue))
	if err != nil || !a.settings.limited() {
		return err
	}
	ids := slices.Clone(stale)
	for _, e := range entries {
		ids = append(ids, e.Item)
	}
	a.groups, a.used = make(map[int64]string, len(ids)), map[string]int{}
	var b pgx.Batch
	if a.settings.perGroup > 0 {
		b.Queue(a.sql.lockGroups, a.queue, ids)
		b.Queue(a.sql.groupRoom, a.queue, ids).Query(func(rows pgx.Rows) error {
			var id int64
			var group string
			var used int
			_, err := pgx.ForEachRow(rows, []any{&id, &group, &used}, func() error {
				a.groups[id], a.used[group] = group, used
				return nil
			})
			return err
		})
	}
	b.Queue("SELECT count(*) FROM millrace.slot WHERE stage = $1", a.queue).
		QueryRow(func(r pgx.Row) error { return r.Scan(&a.out) })
	return tx.SendBatch(ctx, &b).Close()
}

func (a *admitter) admit(e Entry) Admission {
	group := a.groups[e.Item]
	switch {
	case a.settings.concurrency > 0 && a.out >= a.settings.concurrency:
		return Waits
	case group != "" && a.used[group] >= a.settings.perGroup:
		a.parked = append(a.parked, e)
		return Parked
	}
	a.out++
	a.used[group]++
	a.admitted = append(a.admitted, e.Item)
	return Out
}

func (a *admitter) write(ctx context.Context, tx pgx.Tx, stale []int64) error {
	var b pgx.Batch
	if n := len(a.parked); n > 0 {
		ids, generations := make([]int64, n), make([]int32, n)
		priorities, groups := make([]int16, n), make([]string, n)
		for i, e := range a.parked {
			ids[i], generations[i], priorities[i], groups[i] = e.Item, e.Generation, e.Priority, a.groups[e.Item]
		}
		b.Queue(text("park"), a.queue, ids, generations, priorities, groups)
	}
	b.Queue(a.sql.slotsOut, a.queue, a.admitted)
	if len(stale) > 0 {
		b.Queue(a.sql.unpark, a.queue, stale)
	}
	return tx.SendBatch(ctx, &b).Close()
}

// Set changes switches of a queue and returns all of them. Items that are out
// count from then on, and stay out.
func (s *Store) Set(ctx context.Context, q ID, set Set) (v Settings, err error) {
	kind, err := s.kindOf(q)
	if err != nil {
		return v, err
	}
	err = s.Transact(ctx, fmt.Sprintf("set switches of queue %d", q), func(t *Tx) error {
		var rate Rate
		count, per := (*int)(nil), (*float64)(nil)
		if set.RatePerKey != nil {
			rate = *set.RatePerKey
			count, per = &rate.Count, &rate.PerS
		}
		t.Batch.Queue(text("set")+settingsColumns, q, set.Paused, set.MaxAttempts, set.Concurrency, set.PerGroup,
			count, per, set.RetentionS, set.MaxItems).Query(func(rows pgx.Rows) (err error) {
			v, err = pgx.CollectExactlyOneRow(rows, scanSettings)
			return err
		})
		if err := t.Flush(ctx); err != nil {
			return err
		}
		if sql := kind.Statements(q); sql.Limits != "" && (set.Concurrency != nil || set.PerGroup != nil) {
			t.recount(q, sql, v.Limits)
		}
		return nil
	})
	return v, err
}

// recount begins to count what is out, or ends it. Whoever moves an item reads the
// settings when it is locked, and nothing is published while they are: nothing
// comes in or goes out between the two statements that look for items.
func (t *Tx) recount(q ID, sql *Statements, limits Limits) {
	t.announced = true
	t.Batch.Queue(text("unpark_all"), q)
	t.Batch.Queue("DELETE FROM millrace.slot WHERE stage = $1", q)
	if limits.Concurrency == 0 && limits.PerGroup == 0 {
		return
	}
	t.Batch.Queue(sql.Lock+" AND t.id IN ("+text("out")+")"+inOrder, q)
	t.Batch.Queue(strings.ReplaceAll(sql.slotsOut, "ANY ($2::bigint[])", "ANY (ARRAY("+text("out")+"))"), q)
}
