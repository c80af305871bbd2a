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

// GetKey returns the newest value of a key of a bucket, or jetstream.ErrKeyNotFound. It asks the leader, where
// the Get of a bucket may be answered by a copy that lags behind, with a value of before.
func GetKey(ctx context.Context, js jetstream.JetStream, bucket, key string) ([]byte, error) {
	leader, err := asksLeaders(js)
	if err != nil {
		return nil, err
	}
	m, err := leader.GetLastMsg("KV_"+bucket, "$KV."+bucket+"."+key, nats.Context(ctx))
	if errors.Is(err, nats.ErrMsgNotFound) || err == nil && m.Header.Get("KV-Operation") != "" {
		return nil, jetstream.ErrKeyNotFound
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// asksLeaders returns a client that asks the leaders of streams alone.
func asksLeaders(js jetstream.JetStream) (nats.JetStreamContext, error) { return js.Conn().JetStream() }
