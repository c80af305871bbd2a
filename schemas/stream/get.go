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
	leader, err := asksLeaders(js)
	if err != nil {
		return nil, err
	}
	got, err := leader.GetMsg(st.CachedInfo().Config.Name, seq, nats.Context(ctx))
	return rawMsg(got, err)
}

// GetLast returns the last message of a subject of a stream, jetstream.ErrMsgNotFound or
// jetstream.ErrStreamNotFound. It asks the leader.
func GetLast(ctx context.Context, js jetstream.JetStream, name, subject string) (*jetstream.RawStreamMsg, error) {
	leader, err := asksLeaders(js)
	if err != nil {
		return nil, err
	}
	got, err := leader.GetLastMsg(name, subject, nats.Context(ctx))
	return rawMsg(got, err)
}

// rawMsg returns a message as package jetstream has it, or its error.
func rawMsg(m *nats.RawStreamMsg, err error) (*jetstream.RawStreamMsg, error) {
	switch {
	case errors.Is(err, nats.ErrMsgNotFound):
		return nil, jetstream.ErrMsgNotFound
	case errors.Is(err, nats.ErrStreamNotFound):
		return nil, jetstream.ErrStreamNotFound
	case err != nil:
		return nil, err
	}
	return &jetstream.RawStreamMsg{
		Subject: m.Subject, Sequence: m.Sequence, Header: m.Header, Data: m.Data, Time: m.Time,
	}, nil
}

// GetKey returns the newest value of a key of a bucket, or jetstream.ErrKeyNotFound. It asks the leader: the
// client's own Get may be answered by a copy that lags behind, with an older value.
func GetKey(ctx context.Context, js jetstream.JetStream, bucket, key string) ([]byte, error) {
	m, err := GetLast(ctx, js, "KV_"+bucket, "$KV."+bucket+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Header.Get("KV-Operation") != "" {
		return nil, jetstream.ErrKeyNotFound
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// asksLeaders returns a client that asks the leaders of streams alone.
func asksLeaders(js jetstream.JetStream) (nats.JetStreamContext, error) { return js.Conn().JetStream() }
