package acts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
)

// Request asks for an act.
type Request struct {
	Move   string
	Filter ItemFilter
	Errors *recrawl.ErrorFilter // in the place of Filter, of a retry of errors of batches
	By     string               // who asks
	Key    string               // by which the same request is known again; empty: it never is
}

// Count says what an act would be about.
func (s *Store) Count(ctx context.Context, r Request) (ActCount, error) {
	members, more, err := s.members(ctx, r)
	return ActCount{len(members), more}, err
}

// members are what the filter of a request matches now, up to [Most].
func (s *Store) members(ctx context.Context, r Request) (refs []queue.Ref, more bool, err error) {
	add := func(ref queue.Ref) error {
		if len(refs) == Most {
			more = true
			return errEnough
		}
		refs = append(refs, ref)
		return nil
	}
	if r.Errors != nil {
		err = s.eachError(ctx, *r.Errors, add)
	} else {
		var sel selection
		if sel, err = s.selection(ctx, r.Move, r.Filter); err != nil {
			return nil, false, err
		}
		err = s.each(ctx, sel, 0, func(m queue.Member, _ string) error { return add(m.Ref) })
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, err
	}
	return refs, more, nil
}

// Begin makes an act on what the filter matches now, and returns its record. It
// is false when the request was made before, with the same key. An act without
// members has ended when it begins.
func (s *Store) Begin(ctx context.Context, r Request) (a Act, made bool, err error) {
	if a, err := s.again(ctx, r); !errors.Is(err, ErrNoAct) {
		return a, false, err
	}
	refs, more, err := s.members(ctx, r)
	if err != nil {
		return Act{}, false, err
	}
	filter, err := json.Marshal(filters{r.Filter, r.Errors})
	if err != nil {
		return Act{}, false, fmt.Errorf("begin an act: %w", err)
	}
	var id int64
	err = s.queues.Transact(ctx, "begin an act", func(t *queue.Tx) error {
		id = 0
		t.Batch.Queue(text("begin"), r.Move, r.By, r.Key, filter, len(refs), more).Query(func(rows pgx.Rows) error {
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error { return nil })
			return err
		})
		if err := t.Flush(ctx); err != nil || id == 0 {
			return err
		}
		for place, turn := range turns(refs) {
			items, _, generations := queue.Columns(turn)
			t.Batch.Queue(`INSERT INTO millrace.act_batch (act_id, place, stage, items, generations)
				VALUES ($1, $2, $3, $4, $5)`, id, place, turn[0].Queue, items, generations)
		}
		return nil
	})
	if err != nil {
		return Act{}, false, err
	}
	if id == 0 { // the same request at the same time
		a, err = s.again(ctx, r)
		return a, false, err
	}
	select {
	case s.begun <- struct{}{}:
	default:
	}
	a, err = s.Get(ctx, id)
	return a, true, err
}

// again returns the act of the same request, ErrNoAct, or ErrKeyTaken.
func (s *Store) again(ctx context.Context, r Request) (Act, error) {
	if r.Key == "" {
		return Act{}, ErrNoAct
	}
	a, err := s.one(ctx, "SELECT "+columns+" FROM millrace.act WHERE caller = $1 AND request_key = $2", r.By, r.Key)
	if err == nil && (a.Move != r.Move || a.Filter != r.Filter || !alike(a.CrawlErrors, r.Errors)) {
		return Act{}, ErrKeyTaken
	}
	return a, err
}

// alike tells whether two filters of errors are the same.
func alike(a, b *recrawl.ErrorFilter) bool {
	x, _ := json.Marshal(a) // texts, numbers and times within bounds
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// filters are how the filter of an act is written.
type filters struct {
	ItemFilter
	CrawlErrors *recrawl.ErrorFilter `json:"crawl_errors,omitempty"`
}

// turns cuts members into turns, each of one queue.
func turns(refs []queue.Ref) (all [][]queue.Ref) {
	for len(refs) > 0 {
		n := 1
		for n < len(refs) && n < Turn && refs[n].Queue == refs[0].Queue {
			n++
		}
		all, refs = append(all, refs[:n]), refs[n:]
	}
	return all
}
