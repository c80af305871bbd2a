package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/store"
	"github.com/millrace-io/millrace/schemas/stream"
)

// settle is how long a stream may seem to end before what has been folded of
// it: a leader that has just been elected may have to catch up. Tests need less.
var settle = 15 * time.Second

// streamState asks for the stream's state until it reaches a sequence.
func (t *term) streamState(ctx context.Context, reach uint64) (jetstream.StreamState, error) {
	for begin := time.Now(); ; {
		s, err := t.js.Stream(ctx, stream.Events)
		if err != nil {
			return jetstream.StreamState{}, fmt.Errorf("read stream %s: %w", stream.Events, err)
		}
		state := s.CachedInfo().State
		if state.LastSeq >= reach {
			return state, nil
		}
		if time.Since(begin) > settle {
			return state, lost(reach, fmt.Errorf("the stream ends at sequence %d", state.LastSeq))
		}
		t.log.Warn("the stream ends before what has been folded of it, asking again", "last", state.LastSeq, "folded", reach)
		select {
		case <-ctx.Done():
			return state, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// compare returns an error when NATS has lost what it had stored last: what is
// published next gets sequences that rows of the views carry already, which would
// be taken for folded (invariants 2, 5 and 6). The stream may have grown again
// since. It is of no account when nothing is left on it of what the views may
// know.
func (t *term) compare(ctx context.Context, state jetstream.StreamState, folded store.Folded) error {
	if state.FirstSeq > max(folded.Upto, folded.Seq) {
		return nil
	}
	if to := t.decisions.Record().To; folded.Upto > to {
		// Unless another projector has decided since, and folded that.
		if err := t.sign(t.decisions.Renew(ctx)); err != nil {
			return err
		}
		return lost(folded.Upto, fmt.Errorf("the bucket %s knows of batches up to sequence %d alone", stream.Checkpoints, to))
	}
	if folded.Seq < max(state.FirstSeq, 1) {
		return nil
	}
	s, err := t.js.Stream(ctx, stream.Events)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", stream.Events, err)
	}
	m, err := s.GetMsg(ctx, folded.Seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read message %d of %s: %w", folded.Seq, stream.Events, err)
	case !m.Time.Equal(folded.Received):
		return lost(max(folded.Upto, folded.Seq), fmt.Errorf("stream %s has at sequence %d a message of %s, and the views have one of %s",
			stream.Events, folded.Seq, m.Time.UTC().Format(time.RFC3339Nano), folded.Received.Format(time.RFC3339Nano)))
	}
	return nil
}

// lost is the error of a NATS storage that lacks its end. Starting again does
// not mend it.
func lost(folded uint64, reason error) error {
	return stopError{fmt.Errorf("the views are folded up to sequence %d of %s, and NATS has lost what it had stored last, or its storage was replaced: %w; "+
		"restore it, or have the stream go on at %d (README, When NATS has lost its end)", folded, stream.Events, reason, folded+1)}
}
