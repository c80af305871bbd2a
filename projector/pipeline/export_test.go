package pipeline

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// WrapBucket puts something between a projector and the bucket of decisions,
// before it runs.
func (p *Projector) WrapBucket(wrap func(jetstream.KeyValue) jetstream.KeyValue) {
	p.js = wrapped{p.js, wrap}
}

type wrapped struct {
	jetstream.JetStream
	wrap func(jetstream.KeyValue) jetstream.KeyValue
}

func (w wrapped) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	kv, err := w.JetStream.KeyValue(ctx, bucket)
	if err != nil {
		return nil, err
	}
	return w.wrap(kv), nil
}

// FillRows has key stores filled by fewer identities at once, for a test.
func FillRows(t interface{ Cleanup(func()) }, n int) {
	before := fillRows
	fillRows = n
	t.Cleanup(func() { fillRows = before })
}

// LeaderLag has a session wait for less long until a stream reaches what was folded of
// it, for a test.
func LeaderLag(t interface{ Cleanup(func()) }, d time.Duration) {
	before := leaderLag
	leaderLag = d
	t.Cleanup(func() { leaderLag = before })
}
