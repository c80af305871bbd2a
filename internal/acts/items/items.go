// Package items is the subject of bulk actions on items, those of user-defined queues and those
// of the stages of shards: it retries and cancels them. It also groups their failures.
package items

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Name is that of the subject in records of acts.
const Name = "items"

// What acts do to items.
const (
	Retry  = "retry"  // brings failed items back
	Cancel = "cancel" // ends items that have not ended
)

// moves are those that acts make.
var moves = map[string]item.Move{Retry: item.Retry, Cancel: item.Cancel}

//go:embed sql/*.sql
var texts embed.FS

// Subject is that of acts on items. It is safe for concurrent use.
type Subject struct {
	own    *userqueue.Store
	shards *tracking.Store
}

// New returns the subject of items of both kinds, which share a store of queues.
func New(own *userqueue.Store, shards *tracking.Store) *Subject { return &Subject{own, shards} }

// Name implements acts.Subject.
func (s *Subject) Name() string { return Name }

// Asked implements acts.Asking.
func (s *Subject) Asked() any { return Asked{} }

// Each implements acts.Subject.
func (s *Subject) Each(ctx context.Context, o acts.Order, add func(acts.Member) error) error {
	f, err := acts.FilterOf[ItemFilter](o)
	if err != nil {
		return err
	}
	sel, err := s.selection(ctx, o.Move, f)
	if err != nil {
		return err
	}
	return s.each(ctx, sel, 0, func(m queue.Member, _ string) error {
		return add(acts.Member{ID: fmt.Sprint(m.Item), Part: int16(m.Queue), Generation: m.Generation})
	})
}

// Take implements acts.Subject.
func (s *Subject) Take(ctx context.Context, t *queue.Tx, a acts.Act, members []acts.Member) ([]acts.Result, error) {
	moved, err := s.move(ctx, t, a, members)
	all := make([]acts.Result, len(moved))
	for i, r := range moved {
		all[i] = judge(a.Move, r)
	}
	return all, err
}

func (s *Subject) move(ctx context.Context, t *queue.Tx, a acts.Act, members []acts.Member) ([]queue.Result, error) {
	ids, err := acts.Numbers(members)
	if err != nil {
		return nil, err
	}
	commands := make([]queue.Command, len(ids))
	for i, id := range ids {
		commands[i] = queue.Command{ID: id, Worker: a.By}
		if a.Move == Cancel {
			commands[i].Error = fmt.Sprintf("cancelled by act %d", a.ID)
		} else {
			commands[i].Generation = members[i].Generation
		}
	}
	q := queue.ID(members[0].Part)
	if a.Move == Retry && q >= queue.FirstOwn {
		return s.own.RetryIn(ctx, t, q, commands)
	}
	w, err := t.Work(q, moves[a.Move])
	if err != nil {
		return nil, err
	}
	if _, err := w.Lock(ctx, "t.id = ANY ($1::bigint[])", ids); err != nil {
		return nil, err
	}
	return w.Apply(ctx, commands)
}

// judge says what became of a member, and why it was not moved.
func judge(move string, r queue.Result) acts.Result {
	switch {
	case r.Outcome == item.Changed:
		return acts.Result{Outcome: acts.Done}
	case r.Outcome == item.NotFound:
		return acts.Gone
	case move == Retry && r.Rule != "":
		return acts.Result{Outcome: acts.Skipped, Reason: r.Rule}
	case move == Retry && r.Outcome == item.Forbidden && r.Status == item.Failed:
		return acts.Result{Outcome: acts.Failed, Reason: "another live item has its key"}
	case move == Retry && r.Status == item.Failed:
		return acts.Result{Outcome: acts.Skipped, Reason: "was brought back meanwhile, and has failed again"}
	case r.Status == item.Failed:
		return acts.Result{Outcome: acts.Skipped, Reason: "has failed or was cancelled meanwhile"}
	}
	return acts.Result{Outcome: acts.Skipped, Reason: "is " + r.Status.String()}
}

// Describe implements acts.Subject. Items of queues that were deleted are not shown.
func (s *Subject) Describe(ctx context.Context, members []acts.Member) ([]json.RawMessage, error) {
	return acts.Described(ctx, s.own.Queues().Pool(), queue.Text(texts, "describe"), members)
}

var _ acts.Subject = (*Subject)(nil)
