package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// history asks the stream what it has.
type history struct {
	js        jetstream.JetStream
	stream    string
	leaderLag time.Duration // how long it may seem to end too early
	log       *slog.Logger
}

func (h *history) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	s, err := h.js.Stream(ctx, h.stream)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", h.stream, err)
	}
	return s.CachedInfo(), nil
}

// reach asks for the stream's state until the stream reaches a sequence. short is
// why it does not.
func (h *history) reach(ctx context.Context, seq uint64) (state jetstream.StreamState, short, err error) {
	for begin := time.Now(); ; {
		info, err := h.info(ctx)
		if err != nil {
			return state, nil, err
		}
		if state = info.State; state.LastSeq >= seq {
			return state, nil, nil
		}
		if time.Since(begin) > h.leaderLag {
			return state, lost(h.stream, seq, fmt.Errorf("the stream ends at sequence %d", state.LastSeq)), nil
		}
		h.log.Warn("the stream ends before what has been folded of it, asking again", "last", state.LastSeq,
			"folded", seq)
		select {
		case <-ctx.Done():
			return state, nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// remade tells whether the stream was made anew since the message at a sequence
// was folded: it ends before that, for longer than a new leader needs to catch
// up, or it has received a message there only now.
func (h *history) remade(ctx context.Context, seq uint64) (bool, error) {
	info, err := h.info(ctx)
	if err != nil || info.State.LastSeq >= seq {
		return false, err
	}
	if _, short, err := h.reach(ctx, seq); short != nil || err != nil {
		return short != nil, err
	}
	m, err := h.message(ctx, seq)
	return m != nil && m.Time.After(info.TimeStamp), err
}

// message returns the message at a sequence, nil if it is gone.
func (h *history) message(ctx context.Context, seq uint64) (*jetstream.RawStreamMsg, error) {
	s, err := h.js.Stream(ctx, h.stream)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", h.stream, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read message %d of %s: %w", seq, h.stream, err)
	}
	return m, nil
}

// other returns why the message at a sequence is not the one that the stream
// received at a time. One that is gone contradicts nothing.
func (h *history) other(ctx context.Context, seq uint64, received time.Time) (reason, err error) {
	m, err := h.message(ctx, seq)
	if err != nil || m == nil || m.Time.Equal(received) {
		return nil, err
	}
	return fmt.Errorf("stream %s has at sequence %d a message of %s, and the views have one of %s",
		h.stream, seq, m.Time.UTC().Format(time.RFC3339Nano), received.Format(time.RFC3339Nano)), nil
}

func (h *history) present(ctx context.Context, state jetstream.StreamState, seq uint64) (uint64, error) {
	return Present(ctx, h.js, h.stream, state, seq)
}

// Present returns the last sequence up to seq that a stream has a message of, 0
// if it has none. It does not ask a consumer what is left: the consumer's server
// may be behind the others.
func Present(
	ctx context.Context, js jetstream.JetStream, stream string, state jetstream.StreamState, seq uint64,
) (uint64, error) {
	if state.NumDeleted > 0 && seq >= state.FirstSeq {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			return 0, fmt.Errorf("read stream %s: %w", stream, err)
		}
		info, err := s.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return 0, fmt.Errorf("read stream %s: %w", stream, err)
		}
		state = info.State
	}
	slices.Sort(state.Deleted)
	for ; seq >= state.FirstSeq && seq > 0; seq-- {
		if _, deleted := slices.BinarySearch(state.Deleted, seq); !deleted {
			return seq, nil
		}
	}
	return 0, nil
}
