package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/jobs"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/stream"
)

// retryEvery is how often the service looks for events whose wait is over.
const retryEvery = time.Second

// applyWaiting applies events that have waited for their source, and returns whether there may be more.
func (s *Service) applyWaiting(ctx context.Context) (more bool, err error) {
	due, err := s.store.Waiting(ctx, block)
	if err == nil && len(due) > 0 {
		err = s.applyAgain(ctx, due)
	}
	return len(due) == block, err
}

// applyAgain reads events from the stream again and applies them. It gives up those that
// the stream no longer has.
func (s *Service) applyAgain(ctx context.Context, due []jobs.WaitingEvent) error {
	st, err := s.js.Stream(ctx, stream.Sources)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream.Sources, err)
	}
	var all []message
	var gone []uuid.UUID
	for _, e := range due {
		m, err := stream.Get(ctx, s.js, st, uint64(e.Seq))
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return fmt.Errorf("read message %d of %s: %w", e.Seq, stream.Sources, err)
		}
		if err == nil {
			one := parse(fold.Message{Subject: m.Subject, Data: m.Data, Seq: m.Sequence, Time: m.Time.UnixNano()})
			if one.event.ID == e.ID && !one.skip {
				all = append(all, one)
				continue
			}
		}
		gone = append(gone, e.ID)
	}
	if len(gone) > 0 {
		s.log.Error("events that waited for their source are no longer on the stream", "events", len(gone))
		if err := s.store.GiveUp(ctx, gone); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return nil
	}
	return s.apply(ctx, all, nil, 0)
}
