package acts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
)

// Request asks for an act.
type Request struct {
	Subject   string
	Move      string
	Filter    any    // of the subject; it is written as JSON
	Arguments any    // what else the move needs, written as JSON; nil: nothing
	By        string // who asks
	Key       string // by which the same request is known again; empty: it never is
}

// order checks what is asked for as far as the store can.
func (s *Store) order(r Request) (o Order, of Subject, err error) {
	o = Order{Subject: r.Subject, Move: r.Move, By: r.By}
	if of = s.subjects[r.Subject]; of == nil {
		return o, nil, fmt.Errorf("acts on %q: there is no such subject", r.Subject)
	}
	if o.Filter, err = json.Marshal(r.Filter); err == nil && r.Arguments != nil {
		o.Arguments, err = json.Marshal(r.Arguments)
	}
	if err != nil {
		return o, nil, fmt.Errorf("write the filter of an act: %w", err)
	}
	return o, of, nil
}

// Count says what an act would be about.
func (s *Store) Count(ctx context.Context, r Request) (ActCount, error) {
	o, of, err := s.order(r)
	if err != nil {
		return ActCount{}, err
	}
	members, more, err := find(ctx, of, o)
	return ActCount{len(members), more}, err
}

// errEnough ends Each early.
var errEnough = errors.New("enough")

// find finds what the filter of an order matches now, up to [Most].
func find(ctx context.Context, of Subject, o Order) (members []Member, more bool, err error) {
	err = of.Each(ctx, o, func(m Member) error {
		if len(members) == Most {
			more = true
			return errEnough
		}
		members = append(members, m)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, err
	}
	return members, more, nil
}

// Begin makes an act on what the filter matches now, and returns its record. It
// is false when the request was made before, with the same key. An act without
// members has ended when it begins.
func (s *Store) Begin(ctx context.Context, r Request) (a Act, made bool, err error) {
	o, of, err := s.order(r)
	if err != nil {
		return Act{}, false, err
	}
	if a, err := s.again(ctx, o, r.Key); !errors.Is(err, ErrNoAct) {
		return a, false, err
	}
	members, more, err := find(ctx, of, o)
	if err != nil {
		return Act{}, false, err
	}
	id, err := s.write(ctx, o, r.Key, members, more)
	if err != nil {
		return Act{}, false, err
	}
	if id == 0 { // the same request at the same time
		a, err = s.again(ctx, o, r.Key)
		return a, false, err
	}
	select {
	case s.begun <- struct{}{}:
	default:
	}
	a, err = s.Get(ctx, id)
	return a, true, err
}

// write writes an act down with its members, and returns its id; 0: there is one with its key.
func (s *Store) write(ctx context.Context, o Order, key string, members []Member, more bool) (id int64, err error) {
	err = s.queues.Transact(ctx, "begin an act", func(t *queue.Tx) error {
		id = 0
		t.Batch.Queue(text("begin"), o.Subject, o.Move, o.By, key, o.Filter, o.Arguments, len(members), more).Query(
			func(rows pgx.Rows) error {
				_, err := pgx.ForEachRow(rows, []any{&id}, func() error { return nil })
				return err
			})
		if err := t.Flush(ctx); err != nil || id == 0 {
			return err
		}
		for place, turn := range turns(members) {
			ids, generations := columnsOf(turn)
			t.Batch.Queue(`INSERT INTO millrace.act_batch (act_id, place, part, members, generations)
				VALUES ($1, $2, $3, $4, $5)`, id, place, turn[0].Part, ids, generations)
		}
		return nil
	})
	return id, err
}

// again returns the act of the same request, ErrNoAct, or ErrKeyTaken.
func (s *Store) again(ctx context.Context, o Order, key string) (Act, error) {
	if key == "" {
		return Act{}, ErrNoAct
	}
	a, err := s.one(ctx, "SELECT "+columns+" FROM millrace.act WHERE caller = $1 AND request_key = $2", o.By, key)
	if err == nil && (a.Subject != o.Subject || a.Move != o.Move || !alike(a.Filter, o.Filter) ||
		!alike(a.Arguments, o.Arguments)) {
		return Act{}, ErrKeyTaken
	}
	return a, err
}

// alike tells whether two documents are the same but for their spaces.
func alike(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	_, _ = json.Compact(&x, a), json.Compact(&y, b) // both were written as JSON; of none, nothing
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// turns cuts members into turns, each of one part.
func turns(members []Member) (all [][]Member) {
	for len(members) > 0 {
		n := 1
		for n < len(members) && n < Turn && members[n].Part == members[0].Part {
			n++
		}
		all, members = append(all, members[:n]), members[n:]
	}
	return all
}

// columnsOf are members as Postgres unnests them.
func columnsOf(members []Member) (ids []string, generations []int32) {
	for _, m := range members {
		ids, generations = append(ids, m.ID), append(generations, m.Generation)
	}
	return ids, generations
}
