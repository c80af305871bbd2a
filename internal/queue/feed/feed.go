package feed

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

//go:embed sql/*.sql
var texts embed.FS

// Config shapes a feed.
type Config struct {
	Name   string        // names its lock; processes that feed the same rows give the same
	Queue  string        // a user-defined queue, which exists
	Window int           // its items that have not ended, at most; 1 to 10,000
	Every  time.Duration // between two looks for rows, at most; default 200 ms
	// Waiting leaves items that wait for their time out of the window, such as those that are tried again later.
	Waiting bool
	SQL     SQL
	Rows    Rows // in the place of SQL, for a system whose rows need more than statements
	// Moved notes changes of items, also of those that others have added. [Status] is what an
	// item is after one. nil: the system does so with another hook, and calls Wake.
	Moved queue.Hook
}

// Rows are those of a system. What it asks runs in the feed's transactions; rows are named by texts.
type Rows interface {
	// Groups queues the query for the groups that have rows which wait and may be fed, and calls add with each. most is
	// called later: it returns how many items the group may have at a time, given those that it has.
	Groups(b *pgx.Batch, add func(group string, most func(Live) int))
	// Next queues the query for up to n rows of a group that wait, the first ones first, and calls add with each.
	Next(b *pgx.Batch, group string, n int, add func(id string, it userqueue.NewItem) error)
	// Fed notes of rows which items they have become, or which rules they break. They wait no more.
	Fed(ctx context.Context, t *queue.Tx, rows []Fed) error
}

// Live are items of a group that have not ended.
type Live struct {
	Items   int
	Started int // those of them that workers have
}

// Fed is what became of a row.
type Fed struct {
	ID    string
	Item  int64  // 0: none
	Fault string // why there is none
}

// SQL is how a system's rows are read and written. The statements run in the feed's
// transactions; rows are named by texts.
type SQL struct {
	// Groups selects the names of the groups that have rows which wait and may be fed.
	Groups string
	// Next selects up to $2 rows of the group $1 that wait, the first ones first: id,
	// payload (the text of a JSON document) and priority (smallint).
	Next string
	// Fed notes of the rows $1 (text[]) which items they have become $2 (bigint[]), or,
	// where that is null, which rule they break $3 (text[]). They wait no more.
	Fed string
}

// Feed keeps a queue filled. Any number of processes may run the same one.
type Feed struct {
	cfg    Config
	own    *userqueue.Store
	queues *queue.Store
	log    *slog.Logger
	wake   chan struct{}
	turn   uint64
	turns  map[string]uint64 // when each group was fed last
}

// New checks what it is given, and sets the hook of the queue, if there is one: every process that moves its
// items makes the feed then, before it uses the store.
func New(cfg Config, own *userqueue.Store, log *slog.Logger) (*Feed, error) {
	if own == nil || log == nil {
		return nil, errors.New("feed: the queues and a logger are needed")
	}
	if cfg.Rows == nil {
		cfg.Rows = statements{cfg.SQL}
	}
	if cfg.Every == 0 {
		cfg.Every = 200 * time.Millisecond
	}
	if cfg.Name == "" || cfg.Queue == "" || cfg.Window < 1 || cfg.Window > userqueue.MaxItems {
		return nil, fmt.Errorf("feed: want a name, a queue and a window from 1 to %d", userqueue.MaxItems)
	}
	f := &Feed{
		cfg: cfg, own: own, queues: own.Queues(), log: log.With("component", "feed", "feed", cfg.Name),
		wake: make(chan struct{}, 1), turns: map[string]uint64{},
	}
	if cfg.Moved != nil {
		f.queues.OnMove(cfg.Queue, f.moved)
	}
	return f, nil
}

// moved has the system note changes of items, and looks for rows that take their place.
func (f *Feed) moved(ctx context.Context, t *queue.Tx, changes []queue.Change) error {
	if err := f.cfg.Moved(ctx, t, changes); err != nil {
		return err
	}
	f.Wake()
	return nil
}

// Wake has the feed look for rows at once.
func (f *Feed) Wake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Status is what an item is after a change: new, started, done, failed, dead, cancelled, or
// deleted.
func Status(c queue.Change) string {
	switch {
	case c.Deleted:
		return "deleted"
	case c.Move == item.Cancel:
		return "cancelled"
	case c.After.Status == item.Failed && c.After.Dead():
		return "dead"
	}
	return c.After.Status.String()
}

// Run feeds until ctx ends. While the database is away it tries again.
func (f *Feed) Run(ctx context.Context) error {
	return retry.Poll{
		Every: f.cfg.Every, Wake: f.wake,
		Failed: retry.Warn(f.log, "rows cannot be fed now"),
		Well:   func() { f.log.Info("rows are fed again") },
	}.Run(ctx, func(ctx context.Context) (more bool, err error) {
		fed, err := f.Step(ctx)
		return fed > 0, err
	})
}

// stepLimit is how many rows one transaction feeds.
const stepLimit = 500

// Step feeds what there is room for, in one transaction, and returns how many rows wait no
// more by it. It is for one goroutine at a time.
func (f *Feed) Step(ctx context.Context) (fed int, err error) {
	err = f.queues.Transact(ctx, "feed "+f.cfg.Queue, func(t *queue.Tx) error {
		fed = 0
		mine := false
		t.Batch.Queue("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 1))", f.lockName()).
			QueryRow(func(r pgx.Row) error { return r.Scan(&mine) })
		if err := t.Flush(ctx); err != nil || !mine {
			return err
		}
		groups, room, err := f.look(ctx, t)
		if err != nil {
			return err
		}
		rows, err := f.next(ctx, t, share(groups, min(room, stepLimit)))
		if err != nil || len(rows) == 0 {
			return err
		}
		fed = len(rows)
		return f.add(ctx, t, rows)
	})
	if errors.Is(err, userqueue.ErrFull) {
		return 0, nil // it has others' items
	}
	if err == nil && fed > 0 {
		f.queues.Announce()
	}
	return fed, err
}

func (f *Feed) lockName() string { return "feed " + f.cfg.Name }

// look reads which groups have rows that wait, and for how many items there is room.
func (f *Feed) look(ctx context.Context, t *queue.Tx) (groups []group, room int, err error) {
	var most []func(Live) int
	f.cfg.Rows.Groups(t.Batch, func(name string, of func(Live) int) {
		groups, most = append(groups, group{name: name, fed: f.turns[name]}), append(most, of)
	})
	if err := t.Flush(ctx); err != nil {
		return nil, 0, err
	}
	room = f.cfg.Window
	if len(groups) == 0 {
		f.turns = map[string]uint64{}
		return nil, room, nil
	}
	live := map[string]Live{}
	look := t.Batch.Queue(queue.Text(texts, "live"), f.cfg.Queue, !f.cfg.Waiting, f.cfg.Window)
	look.Query(func(rows pgx.Rows) error {
		var name string
		var n Live
		_, err := pgx.ForEachRow(rows, []any{&name, &n.Items, &n.Started}, func() error {
			live[name] = n
			room -= n.Items
			return nil
		})
		return err
	})
	if err := t.Flush(ctx); err != nil {
		return nil, 0, err
	}
	for i := range groups {
		g := &groups[i]
		g.live, g.most = live[g.name].Items, most[i](live[g.name])
	}
	turns := make(map[string]uint64, len(groups)) // not of groups that are gone
	for _, g := range groups {
		turns[g.name] = g.fed
	}
	f.turns = turns
	return groups, max(room, 0), nil
}

// row is a row that becomes an item.
type row struct {
	id   string
	item userqueue.NewItem
}

// next reads the rows that are fed.
func (f *Feed) next(ctx context.Context, t *queue.Tx, groups []group) (all []row, err error) {
	for _, g := range groups {
		f.turn++
		f.turns[g.name] = f.turn
		f.cfg.Rows.Next(t.Batch, g.name, g.room, func(id string, it userqueue.NewItem) error {
			it.Group = g.name
			all = append(all, row{id, it})
			return nil
		})
	}
	return all, t.Flush(ctx)
}

// add adds the items of rows, and has the system note them.
func (f *Feed) add(ctx context.Context, t *queue.Tx, rows []row) error {
	fed := make([]Fed, len(rows))
	var items []userqueue.NewItem
	var of []int
	for i, r := range rows {
		fed[i].ID = r.id
		if broken := userqueue.CheckItems([]userqueue.EnqueueItem{r.item.EnqueueItem}); len(broken) > 0 {
			broken[0].Field = strings.TrimPrefix(broken[0].Field, "items[0].")
			fed[i].Fault = broken[0].Error()
			continue
		}
		items, of = append(items, r.item), append(of, i)
	}
	if len(items) > 0 {
		added, err := f.own.AddIn(ctx, t, f.cfg.Queue, items)
		if err != nil {
			return err
		}
		for i := range added {
			fed[of[i]].Item = added[i].ID
		}
	}
	return f.cfg.Rows.Fed(ctx, t, fed)
}

// Change changes rows of the system in a transaction during which nothing is fed, such as
// whether a group is paused (2).
func (f *Feed) Change(ctx context.Context, what string, do func(*queue.Tx) error) error {
	err := f.queues.Transact(ctx, what, func(t *queue.Tx) error {
		t.Batch.Queue("SELECT pg_advisory_xact_lock(hashtextextended($1, 1))", f.lockName())
		if err := t.Flush(ctx); err != nil { // what follows sees what was fed before
			return err
		}
		return do(t)
	})
	if err == nil {
		f.Wake()
	}
	return err
}
