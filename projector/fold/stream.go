package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// StreamConfig shapes a Stream. The zero value of a field stands for its default.
type StreamConfig struct {
	Stream   string   // required
	Consumer string   // how the names of its consumers begin, for operators; required
	Subjects []string // which messages to read; default all
	// ReadAhead bounds the messages that are asked for and not yet taken;
	// default 32,768. ReadAheadBytes bounds them in bytes; default 32 MiB, and
	// twice the largest message that the server takes at least.
	ReadAhead      int
	ReadAheadBytes int
	// Skips is called when the server claims to have further messages and delivers
	// none: it passes over a record that it cannot read and says nothing, but still
	// counts it as pending. It may also be that they were deleted. It must not wait;
	// default: nothing is called.
	Skips func()
	// Traces has the input read which messages their senders trace; default: it does not.
	Traces bool
}

func (c StreamConfig) withDefaults(maxPayload int) StreamConfig {
	if c.ReadAhead == 0 {
		c.ReadAhead = 32_768
	}
	if c.ReadAheadBytes == 0 {
		c.ReadAheadBytes = 32 << 20
	}
	// The server sends nothing for a request that is smaller than the next message,
	// which would block all messages behind it. A request has at least half of the
	// bound, so it is never smaller.
	c.ReadAheadBytes = max(c.ReadAheadBytes, 2*(maxPayload+maxSubjects))
	return c
}

// Stream is a JetStream stream as the input of a fold.
type Stream struct {
	cfg StreamConfig
	nc  *nats.Conn
	js  jetstream.JetStream
	log *slog.Logger
}

// NewStream returns the input. It asks nothing of the server.
func NewStream(cfg StreamConfig, nc *nats.Conn, js jetstream.JetStream, log *slog.Logger) *Stream {
	return &Stream{cfg: cfg, nc: nc, js: js, log: log}
}

// Name returns the name of the stream.
func (s *Stream) Name() string { return s.cfg.Stream }

// Open returns what reads the messages behind a position, with whole those of all
// subjects.
func (s *Stream) Open(position uint64, whole bool, known Known) Reader {
	cfg := s.cfg
	if whole {
		cfg.Subjects = nil
	}
	return newReader(cfg, s.nc, s.js, position, known, s.log)
}

// State returns what the stream has.
func (s *Stream) State(ctx context.Context) (StreamState, error) {
	st, err := s.stream(ctx)
	if err != nil {
		return StreamState{}, err
	}
	info := st.CachedInfo()
	return StreamState{
		First: info.State.FirstSeq, Last: info.State.LastSeq, At: info.TimeStamp, Partial: s.cfg.Subjects != nil,
	}, nil
}

// Received returns when the stream received the message at a sequence, the zero time
// if the message is gone.
func (s *Stream) Received(ctx context.Context, seq uint64) (time.Time, error) {
	st, err := s.stream(ctx)
	if err != nil {
		return time.Time{}, err
	}
	return received(ctx, s.js, st, seq)
}

// received is Stream.Received of a stream that was just looked at.
func received(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, seq uint64) (time.Time, error) {
	m, err := stream.Get(ctx, js, s, seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("read message %d of %s: %w", seq, s.CachedInfo().Config.Name, err)
	}
	return m.Time, nil
}

// Present returns the last sequence up to seq that the stream has a message of, 0 if
// it has none.
func (s *Stream) Present(ctx context.Context, seq uint64) (uint64, error) {
	st, err := s.stream(ctx)
	if err != nil {
		return 0, err
	}
	return Present(ctx, st, seq)
}

func (s *Stream) stream(ctx context.Context) (jetstream.Stream, error) {
	st, err := s.js.Stream(ctx, s.cfg.Stream)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", s.cfg.Stream, err)
	}
	return st, nil
}

// Present returns the last sequence up to seq that a stream, whose state was just
// read, has a message of, 0 if it has none. It does not ask a consumer what is left:
// the consumer's server may be behind the others.
func Present(ctx context.Context, s jetstream.Stream, seq uint64) (uint64, error) {
	state := s.CachedInfo().State
	if state.NumDeleted > 0 && seq >= state.FirstSeq {
		info, err := s.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return 0, fmt.Errorf("read stream %s: %w", s.CachedInfo().Config.Name, err)
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
