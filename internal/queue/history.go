package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Place is a transition's place in the order of all: that of transactions,
// and within one that of its rows.
type Place struct {
	TX uint64
	ID int64
}

// String is the form that ParsePlace reads.
func (p Place) String() string { return fmt.Sprintf("%d-%d", p.TX, p.ID) }

// ParsePlace reads a place.
func ParsePlace(text string) (Place, error) {
	tx, id, ok := strings.Cut(text, "-")
	if ok {
		t, err1 := strconv.ParseUint(tx, 10, 64)
		n, err2 := strconv.ParseUint(id, 10, 63)
		if err1 == nil && err2 == nil {
			return Place{t, int64(n)}, nil
		}
	}
	return Place{}, errors.New("not a place in the history: two numbers with a hyphen between them")
}

// Transition is one line of the history of an item.
type Transition struct {
	Place   Place
	Queue   ID
	Item    int64
	Move    string
	Status  string // after it
	Attempt int32
	Worker  string
	Error   string
	At      time.Time
}

// Follow returns up to limit transitions behind a place, of all queues. It leaves
// out those that others may still come before: what a transaction that is under
// way has written comes when it has ended.
func (s *Store) Follow(ctx context.Context, after Place, limit int) ([]Transition, error) {
	all, err := s.transitions(ctx, `WHERE (tx, id) > ($1::xid8, $2) AND tx < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY tx, id LIMIT $3`, after.TX, after.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("follow the history behind %s: %w", after, err)
	}
	return all, nil
}

// History returns what happened to an item, in order: the first 1,000 transitions.
func (s *Store) History(ctx context.Context, id int64) ([]Transition, error) {
	all, err := s.transitions(ctx, "WHERE item_id = $1 ORDER BY tx, id LIMIT 1000", id)
	if err != nil {
		return nil, fmt.Errorf("read the history of item %d: %w", id, err)
	}
	return all, nil
}

func (s *Store) transitions(ctx context.Context, where string, args ...any) ([]Transition, error) {
	rows, _ := s.pool.Query(ctx, `SELECT tx, id, stage, item_id, move::text, status::text, attempt,
		coalesce(worker, ''), coalesce(error, ''), at FROM millrace.history `+where, args...)
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (v Transition, err error) {
		return v, r.Scan(&v.Place.TX, &v.Place.ID, &v.Queue, &v.Item, &v.Move, &v.Status, &v.Attempt, &v.Worker,
			&v.Error, &v.At)
	})
}

// Now is the place behind everything that Follow returns now.
func (s *Store) Now(ctx context.Context) (Place, error) {
	var at Place
	if err := s.pool.QueryRow(ctx, "SELECT pg_snapshot_xmin(pg_current_snapshot())").Scan(&at.TX); err != nil {
		return Place{}, fmt.Errorf("find the end of the history: %w", err)
	}
	return at, nil
}
