package scheduler

import "context"

// Dispatch decides about a batch of jobs that are due, and tells whether more may be.
func (s *Scheduler) Dispatch(ctx context.Context) (more bool, err error) {
	wait, err := s.dispatch(ctx)
	return wait == 0 && err == nil, err
}
