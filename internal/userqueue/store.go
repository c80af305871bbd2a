package userqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Store keeps user-defined queues. It is safe for concurrent use.
type Store struct {
	queues *queue.Store
	pacing item.Pacing
}

// New returns a store on that of all queues, which has to know the items of Kind.
func New(queues *queue.Store) (*Store, error) { return NewPaced(queues, item.Pacing{}) }

// NewPaced is New with how items wait after errors of others.
func NewPaced(queues *queue.Store, pacing item.Pacing) (*Store, error) {
	if queues == nil {
		return nil, errors.New("user queues: the queues are needed")
	}
	pacing, err := pacing.WithDefaults()
	if err != nil {
		return nil, fmt.Errorf("user queues: %w", err)
	}
	return &Store{queues, pacing}, nil
}

// Pacing is how items wait after errors of others.
func (s *Store) Pacing() item.Pacing { return s.pacing }

// Queues is the store in which the items move.
func (s *Store) Queues() *queue.Store { return s.queues }

// ErrDiffers is the error of a queue that exists with other settings.
var ErrDiffers = errors.New("the queue exists with other settings")

// ErrTooMany is the error of a queue beyond MaxQueues.
var ErrTooMany = fmt.Errorf("there are %d queues, and there may be no more", MaxQueues)

// ErrShare is the error of a queue beyond those that one maker may have.
var ErrShare = errors.New("there are as many queues of one maker as there may be")

// ErrFull is the error of items beyond those that a queue may have live.
var ErrFull = errors.New("the queue has as many live items as it may")

// Maker is who makes a queue, and how many he may have. The zero value is nobody in
// particular.
type Maker struct {
	Name string
	Most int
}

// Create makes a queue, and returns false when it is there already, alike.
func (s *Store) Create(ctx context.Context, want queue.Settings) (made bool, err error) {
	return s.CreateBy(ctx, Maker{}, want)
}

// CreateBy makes a queue as one of a maker's.
func (s *Store) CreateBy(ctx context.Context, by Maker, want queue.Settings) (made bool, err error) {
	if want.RatePerKey.Count == 0 {
		want.RatePerKey = queue.Rate{}
	}
	if by.Name == "" {
		by.Most = MaxQueues
	}
	var rows int64
	err = s.queues.Transact(ctx, "create queue "+want.Name, func(t *queue.Tx) error {
		t.Batch.Queue("LOCK TABLE millrace.stage IN SHARE ROW EXCLUSIVE MODE") // to count queues
		t.Batch.Queue(text("create"), want.Name, want.MaxAttempts, want.LeaseS, want.BackoffS, want.Concurrency,
			want.PerGroup,
			want.RatePerKey.Count, want.RatePerKey.PerS, want.RetentionS, want.MaxItems, MaxQueues, by.Name, by.Most).
			Exec(func(tag pgconn.CommandTag) error { rows = tag.RowsAffected(); return nil })
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("create queue %s: %w", want.Name, err)
	}
	if rows > 0 {
		s.queues.Announce() // the service makes its consumer
		return true, nil
	}
	have, err := s.queues.Queue(ctx, want.Name)
	switch {
	case errors.Is(err, queue.ErrNoQueue):
		return false, s.tooMany(ctx, by)
	case err != nil:
		return false, err
	}
	backoff := slices.Equal(have.BackoffS, want.BackoffS)
	have.BackoffS, want.BackoffS = nil, nil
	want.ID, want.Paused, want.Followed, want.MeasuredS = have.ID, have.Paused, have.Followed, have.MeasuredS
	if have.ID < queue.FirstOwn || !backoff || !reflect.DeepEqual(have, want) {
		return false, ErrDiffers
	}
	return false, nil
}

// tooMany says which bound keeps a queue from being made.
func (s *Store) tooMany(ctx context.Context, by Maker) error {
	var n int
	err := s.queues.Pool().QueryRow(ctx, "SELECT count(*) FROM millrace.stage WHERE made_by = $1", by.Name).Scan(&n)
	switch {
	case err != nil:
		return fmt.Errorf("count the queues of one maker: %w", err)
	case n >= by.Most:
		return ErrShare
	}
	return ErrTooMany
}

// Get returns the settings of a user-defined queue, or queue.ErrNoQueue.
func (s *Store) Get(ctx context.Context, name string) (queue.Settings, error) {
	if !names.MatchString(name) {
		return queue.Settings{}, queue.ErrNoQueue
	}
	v, err := s.queues.Queue(ctx, name)
	if err == nil && v.ID < queue.FirstOwn {
		err = queue.ErrNoQueue
	}
	return v, err
}

// States returns all user-defined queues in numbers.
func (s *Store) States(ctx context.Context) ([]queue.State, error) {
	all, err := s.queues.Summary(ctx, func(int32, int32, int64) {})
	return slices.DeleteFunc(all, func(v queue.State) bool { return v.ID < queue.FirstOwn }), err
}

// Added is what became of an item that was to be added.
type Added struct {
	ID       int64
	Existing bool // a live item with its key was there before
}

// Enqueue adds items to a queue, all or none, and returns what became of each in
// their order.
func (s *Store) Enqueue(ctx context.Context, name string, items []EnqueueItem) ([]Added, error) {
	if !names.MatchString(name) {
		return nil, queue.ErrNoQueue
	}
	var added []Added
	err := s.queues.Transact(ctx, fmt.Sprintf("add %d items to %s", len(items), name), func(t *queue.Tx) (err error) {
		added, err = s.EnqueueIn(ctx, t, name, items)
		return err
	})
	switch {
	case errors.Is(err, queue.ErrNoQueue):
		return nil, queue.ErrNoQueue
	case errors.Is(err, ErrFull):
		return nil, fmt.Errorf("%s: %w", name, ErrFull)
	case err == nil:
		s.queues.Announce()
	}
	return added, err
}

// EnqueueIn is Enqueue in a transaction of the caller's, which calls Announce on the queues
// when it has ended. The caller has checked the items.
func (s *Store) EnqueueIn(ctx context.Context, t *queue.Tx, name string, items []EnqueueItem) ([]Added, error) {
	all := make([]NewItem, len(items))
	for i, it := range items {
		all[i].EnqueueItem = it
	}
	return s.AddIn(ctx, t, name, all)
}

// AddIn is EnqueueIn with items that may have been tried before.
func (s *Store) AddIn(ctx context.Context, t *queue.Tx, name string, items []NewItem) ([]Added, error) {
	data, err := json.Marshal(items)
	if err != nil {
		return nil, fmt.Errorf("write items: %w", err)
	}
	added := make([]Added, len(items))
	t.Batch.Queue("SELECT place, item_id, existing FROM millrace.add_items($1, $2)", name, data).
		Query(func(rows pgx.Rows) error {
			var place int64
			var a Added
			_, err := pgx.ForEachRow(rows, []any{&place, &a.ID, &a.Existing}, func() error {
				added[place-1] = a
				return nil
			})
			return err
		})
	err = t.Flush(ctx)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case "P0002":
			return nil, queue.ErrNoQueue
		case "53400":
			return nil, ErrFull
		}
	}
	if err != nil {
		return nil, err
	}
	return added, traceAdded(ctx, t, name, items, added)
}

// traceAdded has the items that were added continue their traces, or the caller's, where there is one.
func traceAdded(ctx context.Context, t *queue.Tx, name string, items []NewItem, added []Added) error {
	common := t.TraceAdded(ctx, name)
	var ids []int64
	var traces []string
	for i, a := range added {
		if own := cmp.Or(items[i].Trace, common); own != "" && !a.Existing {
			ids, traces = append(ids, a.ID), append(traces, own)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	t.Batch.Queue(`UPDATE millrace.item AS i SET trace_parent = u.trace
		FROM unnest($1::bigint[], $2::text[]) AS u (id, trace) WHERE i.id = u.id`, ids, traces)
	return t.Flush(ctx)
}

// Retry brings items that have failed back to new. An item whose key another
// live item has stays as it is, with the outcome Forbidden, and so does one that
// a system bars (see queue.Bar).
func (s *Store) Retry(ctx context.Context, q queue.ID, ids []int64) (results []queue.Result, err error) {
	commands := make([]queue.Command, len(ids))
	for i, id := range ids {
		commands[i] = queue.Command{ID: id}
	}
	err = s.queues.Transact(ctx, fmt.Sprintf("retry %d items of queue %d", len(ids), q), func(t *queue.Tx) (err error) {
		results, err = s.RetryIn(ctx, t, q, commands)
		return err
	})
	return results, err
}

// RetryIn is Retry in a transaction of the caller's, with commands that name
// items by their ids, each once. The results are in their order.
func (s *Store) RetryIn(
	ctx context.Context, t *queue.Tx, q queue.ID, commands []queue.Command,
) ([]queue.Result, error) {
	w, err := t.Work(q, item.Retry)
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(commands))
	for i, c := range commands {
		ids[i] = c.ID
	}
	locked, err := w.Lock(ctx, "t.id = ANY ($1::bigint[])", ids)
	if err != nil {
		return nil, err
	}
	lost, err := w.Barred(ctx)
	if err != nil {
		return nil, err
	}
	rows := make(map[int64]queue.Result, len(locked))
	for _, r := range locked {
		rows[r.ID] = r
	}
	barred, err := retakeKeys(ctx, t, q, commands, rows, lost)
	if err != nil {
		return nil, err
	}
	free := make([]queue.Command, 0, len(commands))
	for _, c := range commands {
		if !barred[c.ID] {
			free = append(free, c)
		}
	}
	moved, err := w.Apply(ctx, free)
	if err != nil {
		return nil, err
	}
	results := make([]queue.Result, len(commands))
	for i, c := range commands {
		if results[i] = rows[c.ID]; barred[c.ID] {
			results[i].Outcome = item.Forbidden
		} else {
			results[i], moved = moved[0], moved[1:]
		}
	}
	return results, nil
}

// retakeKeys has those items that commands bring back take their keys again, but for
// lost ones, and returns those whose key another live item has.
func retakeKeys(
	ctx context.Context, t *queue.Tx, q queue.ID, commands []queue.Command, rows map[int64]queue.Result,
	lost map[int64]string,
) (map[int64]bool, error) {
	var ids []int64
	barred := map[int64]bool{}
	for _, c := range commands {
		r := rows[c.ID]
		if r.Name != "" && lost[c.ID] == "" && r.Status == item.Failed && (c.Generation == 0 || c.Generation == r.Generation) {
			ids = append(ids, c.ID)
			barred[c.ID] = true
		}
	}
	if len(ids) == 0 {
		return barred, nil
	}
	t.Batch.Queue(text("retake_key"), q, ids).Query(func(rows pgx.Rows) error {
		var id int64
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error { delete(barred, id); return nil })
		return err
	})
	return barred, t.Flush(ctx)
}

// Cancel cancels items, or those of a group that are new or started, up to a
// limit, and returns how many.
func (s *Store) Cancel(ctx context.Context, q queue.ID, group, by string, limit int) (n int, err error) {
	what := fmt.Sprintf("cancel group %s of queue %d", group, q)
	err = s.queues.Transact(ctx, what, func(t *queue.Tx) (err error) {
		n, _, err = s.CancelIn(ctx, t, q, group, by, 0, limit)
		return err
	})
	return n, err
}

// CancelIn is Cancel in a transaction of the caller's, of items behind the item after. It also returns the last item
// that it has looked at, from which the next part goes on: after if there was none.
func (s *Store) CancelIn(
	ctx context.Context, t *queue.Tx, q queue.ID, group, by string, after int64, limit int,
) (n int, last int64, err error) {
	w, err := t.Work(q, item.Cancel)
	if err != nil {
		return 0, after, err
	}
	locked, err := w.Lock(ctx, `t.id = ANY (ARRAY(SELECT i.id FROM millrace.item AS i
		WHERE i.stage = $1 AND i."group" = $2 AND i.id > $3 AND i.status IN ('new', 'started') ORDER BY i.id
		LIMIT $4))`, q, group, after, limit)
	if err != nil {
		return 0, after, err
	}
	commands := make([]queue.Command, len(locked))
	last = after
	for i, r := range locked {
		commands[i] = queue.Command{ID: r.ID, Worker: by, Error: "the group was cancelled"}
		last = max(last, r.ID)
	}
	_, err = w.Apply(ctx, commands)
	return w.Changed(), last, err
}
