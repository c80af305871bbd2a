// Package memo keeps answers that are dear to compute: a question that is
// asked by many at one time is computed once, and its answer serves for as
// long as its asker says that it is fresh.
package memo

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Memo holds the newest answers by question. It is safe for concurrent use.
type Memo[V any] struct {
	limit   int
	age     time.Duration
	now     func() time.Time
	flights singleflight.Group

	mu      sync.Mutex
	clock   uint64 // counts what happens
	answers map[string]Answer[V]
}

// Answer is an answer, when its computation began, and how long that took.
type Answer[V any] struct {
	Value V
	At    time.Time
	Took  time.Duration
	begun uint64 // the memo's clock at the begin
}

// New makes a memo of at most limit answers, none of them older than an age
// when another one is kept.
func New[V any](limit int, age time.Duration, now func() time.Time) *Memo[V] {
	return &Memo[V]{limit: limit, age: age, now: now, answers: map[string]Answer[V]{}}
}

// Get returns the answer that is held if fresh says so of it, else one that
// was begun after Get was called. compute is called once for all who ask
// meanwhile, with a context that does not end with that of one of them: it has
// to bound itself. Get returns ctx's error if ctx ends first.
func (m *Memo[V]) Get(ctx context.Context, question string, fresh func(Answer[V]) bool, compute func(context.Context) (V, error)) (V, error) {
	a, held := m.held(question)
	asked := m.tick()
	for !held || (a.begun < asked && !fresh(a)) {
		var err error
		if a, err = m.join(ctx, question, compute); err != nil {
			return a.Value, err
		}
		held = true
	}
	return a.Value, nil
}

// join waits for the computation that is under way, or for one that it starts.
func (m *Memo[V]) join(ctx context.Context, question string, compute func(context.Context) (V, error)) (Answer[V], error) {
	detached := context.WithoutCancel(ctx)
	done := m.flights.DoChan(question, func() (any, error) {
		a := Answer[V]{At: m.now(), begun: m.tick()}
		begun := time.Now()
		var err error
		if a.Value, err = compute(detached); err != nil {
			return a, err
		}
		a.Took = time.Since(begun)
		m.keep(question, a)
		return a, nil
	})
	select {
	case r := <-done:
		return r.Val.(Answer[V]), r.Err
	case <-ctx.Done():
		return Answer[V]{}, ctx.Err()
	}
}

func (m *Memo[V]) tick() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clock++
	return m.clock
}

func (m *Memo[V]) held(question string) (Answer[V], bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, held := m.answers[question]
	return a, held
}

// keep stores an answer, in place of those that are too old, and of the oldest
// one if there are too many.
func (m *Memo[V]) keep(question string, a Answer[V]) {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.answers, func(_ string, b Answer[V]) bool { return now.Sub(b.At) > m.age })
	m.answers[question] = a
	for len(m.answers) > m.limit {
		oldest := question
		for q, b := range m.answers {
			if b.begun < m.answers[oldest].begun {
				oldest = q
			}
		}
		delete(m.answers, oldest)
	}
}
