package pipeline

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// resultCache holds the newest answers by question. It is safe for concurrent use.
type resultCache[V any] struct {
	limit   int
	age     time.Duration
	now     func() time.Time
	flights singleflight.Group

	mu      sync.Mutex
	clock   uint64 // counts what happens
	answers map[string]cachedAnswer[V]
}

// cachedAnswer is an answer, when its computation began, and how long that took.
type cachedAnswer[V any] struct {
	Value V
	At    time.Time
	Took  time.Duration
	begun uint64 // the cache's clock at the begin
}

// newResultCache makes a cache of at most limit answers. It drops answers older than age
// when it stores another one.
func newResultCache[V any](limit int, age time.Duration, now func() time.Time) *resultCache[V] {
	return &resultCache[V]{limit: limit, age: age, now: now, answers: map[string]cachedAnswer[V]{}}
}

// Get returns the cached answer if fresh says so of it, else one whose
// computation began after Get was called. compute is called once for all who ask
// meanwhile. Its context does not end with that of any asker, so compute has to
// bound itself. Get returns ctx's error if ctx ends first.
func (c *resultCache[V]) Get(
	ctx context.Context, question string, fresh func(cachedAnswer[V]) bool, compute func(context.Context) (V, error),
) (V, error) {
	a, cached := c.cached(question)
	asked := c.tick()
	for !cached || (a.begun < asked && !fresh(a)) {
		var err error
		if a, err = c.join(ctx, question, compute); err != nil {
			return a.Value, err
		}
		cached = true
	}
	return a.Value, nil
}

// join waits for the computation that is under way, or starts one.
func (c *resultCache[V]) join(
	ctx context.Context, question string, compute func(context.Context) (V, error),
) (cachedAnswer[V], error) {
	detached := context.WithoutCancel(ctx)
	done := c.flights.DoChan(question, func() (any, error) {
		a := cachedAnswer[V]{At: c.now(), begun: c.tick()}
		begun := time.Now()
		var err error
		if a.Value, err = compute(detached); err != nil {
			return a, err
		}
		a.Took = time.Since(begun)
		c.store(question, a)
		return a, nil
	})
	select {
	case r := <-done:
		return r.Val.(cachedAnswer[V]), r.Err
	case <-ctx.Done():
		return cachedAnswer[V]{}, ctx.Err()
	}
}

func (c *resultCache[V]) tick() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	return c.clock
}

func (c *resultCache[V]) cached(question string) (cachedAnswer[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, cached := c.answers[question]
	return a, cached
}

// store keeps an answer, and drops answers that are too old and the oldest of
// too many.
func (c *resultCache[V]) store(question string, a cachedAnswer[V]) {
	now := c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.answers, func(_ string, b cachedAnswer[V]) bool { return now.Sub(b.At) > c.age })
	c.answers[question] = a
	for len(c.answers) > c.limit {
		oldest := question
		for q, b := range c.answers {
			if b.begun < c.answers[oldest].begun {
				oldest = q
			}
		}
		delete(c.answers, oldest)
	}
}
