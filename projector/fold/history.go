package fold

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// history compares the input with what was folded of it.
type history struct {
	input     Input
	leaderLag time.Duration // how long it may seem to end too early
	log       *slog.Logger
}

// reach asks for the input's state until the input reaches a sequence. short is
// why it does not.
func (h *history) reach(ctx context.Context, seq uint64) (state StreamState, short, err error) {
	for begin := time.Now(); ; {
		if state, err = h.input.State(ctx); err != nil {
			return state, nil, err
		}
		if state.Last >= seq {
			return state, nil, nil
		}
		if time.Since(begin) > h.leaderLag {
			return state, lost(h.input, seq, fmt.Errorf("the stream ends at sequence %d", state.Last)), nil
		}
		h.log.Warn("the stream ends before what has been folded of it, asking again", "last", state.Last,
			"folded", seq)
		select {
		case <-ctx.Done():
			return state, nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// remade tells whether the input was made anew since the message at a sequence
// was folded: it ends before that, for longer than a new leader needs to catch
// up, or it has received a message there only now.
func (h *history) remade(ctx context.Context, seq uint64) (bool, error) {
	state, err := h.input.State(ctx)
	if err != nil || state.Last >= seq {
		return false, err
	}
	if _, short, err := h.reach(ctx, seq); short != nil || err != nil {
		return short != nil, err
	}
	received, err := h.input.Received(ctx, seq)
	return received.After(state.At), err
}

// other returns why the message at a sequence is not the known one. One that is gone
// contradicts nothing.
func (h *history) other(ctx context.Context, known Known) (reason, err error) {
	at, err := h.input.Received(ctx, known.Seq)
	if err != nil || !known.other(at) {
		return nil, err
	}
	return fmt.Errorf("stream %s has at sequence %d a message of %s, and the views have one of %s", h.input.Name(),
		known.Seq, at.UTC().Format(time.RFC3339Nano), known.Received.UTC().Format(time.RFC3339Nano)), nil
}

// other tells whether a message that was received at a time is not the known one. The zero
// time stands for one that is gone, of which nothing is said.
func (k Known) other(at time.Time) bool {
	return !at.IsZero() && !at.Truncate(time.Microsecond).Equal(k.Received.Truncate(time.Microsecond))
}
