package acts

import (
	"context"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
)

// Errors are those of batches that acts are about.
func (s *Store) Errors() *recrawl.Store { return s.errs }

// eachError calls do with every error that a filter matches.
func (s *Store) eachError(ctx context.Context, f recrawl.ErrorFilter, do func(queue.Ref) error) error {
	if broken := f.Check(); len(broken) > 0 {
		return &broken[0]
	}
	return s.errs.Each(ctx, f, func(e recrawl.Error) error {
		return do(queue.Ref{Item: e.ID, Queue: ofErrors, Generation: e.Generation})
	})
}

// retryErrors has the members of a turn tried again, which are errors of batches.
func (s *Store) retryErrors(ctx context.Context, t *queue.Tx, v turn) ([]reach, error) {
	errs := make([]recrawl.Error, len(v.items))
	for i, id := range v.items {
		errs[i] = recrawl.Error{ID: id, Generation: v.generations[i]}
	}
	why, err := s.errs.RetryIn(ctx, t, errs)
	all := make([]reach, len(why))
	for i, reason := range why {
		if all[i] = (reach{"skipped", reason}); reason == "" {
			all[i].outcome = "done"
		}
	}
	return all, err
}
