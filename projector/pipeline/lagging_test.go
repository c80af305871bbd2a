package pipeline_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/projector/pipeline"
)

// replicas are the copies of a bucket in a cluster, of which any may answer a
// read: every third answer is of a copy that lags behind.
type replicas struct {
	mu   sync.Mutex
	rng  *rand.Rand
	past map[string][]jetstream.KeyValueEntry // what each key has been, in order
}

type laggingBucket struct {
	jetstream.KeyValue
	*replicas
}

func (b laggingBucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	entry, err := b.KeyValue.Get(ctx, key)
	b.mu.Lock()
	defer b.mu.Unlock()
	past := b.past[key]
	if err == nil && (len(past) == 0 || past[len(past)-1].Revision() < entry.Revision()) {
		past = append(past, entry)
		b.past[key] = past
	}
	if b.rng.IntN(3) > 0 {
		return entry, err
	}
	if n := b.rng.IntN(min(len(past), 5) + 1); n > 0 {
		return past[len(past)-n], nil
	}
	return nil, jetstream.ErrKeyNotFound
}

// TestLaggingReplicas: projectors that read what the bucket has been, or not
// yet, count each event once all the same (invariant 3), while the number of
// slot groups changes.
func TestLaggingReplicas(t *testing.T) {
	slowtest.Mark(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t)
	copies := &replicas{rng: rand.New(rand.NewPCG(seed, 2)), past: map[string][]jetstream.KeyValueEntry{}}
	b.wrap = func(kv jetstream.KeyValue) jetstream.KeyValue { return laggingBucket{kv, copies} }
	for range 2 {
		dir := t.TempDir()
		b.start(func(c *pipeline.Config) {
			c.Dir, c.Lease, c.BatchRows = dir, time.Second, 20+rng.IntN(200)
		})
	}
	var sent [][2]string
	b.history(rng, 200, &sent)
	for _, groups := range []uint32{3, 2} {
		b.regroup(groups)
		b.history(rng, 150, &sent)
		b.grouped(int(groups), b.truth.last)
	}
	b.check()
}
