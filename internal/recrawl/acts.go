package recrawl

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/millrace-io/millrace/internal/acts"
	"github.com/millrace-io/millrace/internal/queue"
)

// Subject is the name of errors of batches in records of acts.
const Subject = "crawl_errors"

// Act is the record of an act as HTTP has it: the filter of one on errors of batches is a
// member of its own.
type Act struct {
	acts.Act
	CrawlErrors *ErrorFilter `json:"crawl_errors,omitempty" doc:"What the action is about where it is about errors of batches; filter is empty then"`
}

// ActOf returns a record as HTTP has it.
func ActOf(a acts.Act) Act {
	of := Act{Act: a}
	if a.Subject == Subject && json.Unmarshal(a.Filter, &of.CrawlErrors) == nil {
		of.Filter = json.RawMessage("{}")
	}
	return of
}

// Request asks for an act that has the errors of the filter tried again.
func (f ErrorFilter) Request() acts.Request {
	return acts.Request{Subject: Subject, Move: "retry", Filter: f}
}

// subject has errors of batches be what acts are about.
type subject struct{ store *Store }

// Subject returns what acts on errors of batches are about.
func (s *Store) Subject() acts.Subject { return subject{s} }

func (s subject) Name() string { return Subject }

func (s subject) Each(ctx context.Context, o acts.Order, add func(acts.Member) error) error {
	f, err := acts.FilterOf[ErrorFilter](o)
	if err != nil {
		return err
	}
	if broken := f.Check(); len(broken) > 0 {
		return &broken[0]
	}
	return s.store.Each(ctx, f, func(e Error) error {
		return add(acts.Member{ID: fmt.Sprint(e.ID), Generation: e.Generation})
	})
}

func (s subject) Take(ctx context.Context, t *queue.Tx, _ acts.Act, members []acts.Member) ([]acts.Result, error) {
	ids, err := acts.Numbers(members)
	if err != nil {
		return nil, err
	}
	errs := make([]Error, len(ids))
	for i, id := range ids {
		errs[i] = Error{ID: id, Generation: members[i].Generation}
	}
	why, err := s.store.RetryIn(ctx, t, errs)
	all := make([]acts.Result, len(why))
	for i, reason := range why {
		if all[i] = (acts.Result{Outcome: acts.Skipped, Reason: reason}); reason == "" {
			all[i].Outcome = acts.Done
		}
	}
	return all, err
}

func (s subject) Describe(ctx context.Context, members []acts.Member) ([]json.RawMessage, error) {
	return acts.Described(ctx, s.store.own.Queues().Pool(), text("describe"), members)
}
