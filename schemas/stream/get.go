package stream

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Get returns the message of a stream at a sequence, or jetstream.ErrMsgNotFound. In a cluster any copy of
// the stream answers first, also one that lags behind. Only the leader knows that there is no such message,
// so Get asks it before it says so.
func Get(ctx context.Context, js jetstream.JetStream, st jetstream.Stream, seq uint64) (*jetstream.RawStreamMsg, error) {
	m, err := st.GetMsg(ctx, seq)
	if !errors.Is(err, jetstream.ErrMsgNotFound) || !st.CachedInfo().Config.AllowDirect {
		return m, err
	}
	leader, err := js.Conn().JetStream() // which asks the leader alone
	if err != nil {
		return nil, err
	}
	got, err := leader.GetMsg(st.CachedInfo().Config.Name, seq, nats.Context(ctx))
	if errors.Is(err, nats.ErrMsgNotFound) {
		return nil, jetstream.ErrMsgNotFound
	}
	if err != nil {
		return nil, err
	}
	return &jetstream.RawStreamMsg{
		Subject: got.Subject, Sequence: got.Sequence, Header: got.Header, Data: got.Data, Time: got.Time,
	}, nil
}
