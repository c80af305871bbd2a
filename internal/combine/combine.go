// Package combine has calls that come at the same time share the work of one.
package combine

import (
	"context"
	"sync"
	"sync/atomic"
)

// Work does what calls have asked for, and returns a result for each item, in their order. After an error it has done
// nothing, or it can be asked again. What is done for several calls has the values of no context.
type Work[K comparable, T, R any] func(ctx context.Context, lane K, items []T) ([]R, error)

// Lanes combines calls. Calls in one lane wait while AtOnce of them are at work, and go on together. Lanes do not wait
// for each other. Lanes is safe for concurrent use; its fields must not be changed once it is used.
type Lanes[K comparable, T, R any] struct {
	Work Work[K, T, R]
	// Most is how many items are worked together at most. A call with more of them waits for nobody.
	Most int
	// AtOnce is how many calls of Work are under way in each lane.
	AtOnce int

	mu    sync.Mutex
	lanes map[K]*lane[T, R]
}

type lane[T, R any] struct {
	atWork  int
	waiting []*call[T, R]
}

type call[T, R any] struct {
	ctx     context.Context
	items   []T
	done    chan struct{}
	results []R
	err     error
	shared  bool // err may be due to another call
}

// Do has the items worked and returns their results. When ctx ends before, Do returns its error, and the items are
// worked or not. When work fails that was done together, each call has its own items worked once more, alone: what is
// wrong with one call does not make others fail.
func (l *Lanes[K, T, R]) Do(ctx context.Context, k K, items []T) ([]R, error) {
	if len(items) > l.Most {
		return l.Work(ctx, k, items)
	}
	c := &call[T, R]{ctx: ctx, items: items, done: make(chan struct{})}
	l.mu.Lock()
	if l.lanes == nil {
		l.lanes = map[K]*lane[T, R]{}
	}
	of := l.lanes[k]
	if of == nil {
		of = &lane[T, R]{}
		l.lanes[k] = of
	}
	of.waiting = append(of.waiting, c)
	l.start(k, of)
	l.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c.err != nil && c.shared {
		return l.Work(ctx, k, items)
	}
	return c.results, c.err
}

// start begins as much work as there is room for, and forgets a lane that nobody uses.
func (l *Lanes[K, T, R]) start(k K, of *lane[T, R]) {
	for of.atWork < l.AtOnce {
		calls := l.next(of)
		if len(calls) == 0 {
			break
		}
		of.atWork++
		go func() {
			l.work(k, calls)
			l.mu.Lock()
			defer l.mu.Unlock()
			of.atWork--
			l.start(k, of)
		}()
	}
	if of.atWork == 0 {
		delete(l.lanes, k)
	}
}

// next takes those calls of a lane that go on together, in the order in which they came.
func (l *Lanes[K, T, R]) next(of *lane[T, R]) (calls []*call[T, R]) {
	n := 0
	for len(of.waiting) > 0 {
		c := of.waiting[0]
		if c.ctx.Err() == nil { // or nobody waits for it
			if n += len(c.items); n > l.Most {
				break
			}
			calls = append(calls, c)
		}
		of.waiting = of.waiting[1:]
	}
	return calls
}

// work does what calls have asked for. It goes on while one of them waits.
func (l *Lanes[K, T, R]) work(k K, calls []*call[T, R]) {
	ctx := context.Background()
	if len(calls) == 1 {
		ctx = context.WithoutCancel(calls[0].ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var waiting atomic.Int32
	waiting.Store(int32(len(calls)))
	var items []T
	for _, c := range calls {
		items = append(items, c.items...)
		defer context.AfterFunc(c.ctx, func() {
			if waiting.Add(-1) == 0 {
				cancel(context.Cause(c.ctx))
			}
		})()
	}
	results, err := l.Work(ctx, k, items)
	for _, c := range calls {
		if c.err, c.shared = err, len(calls) > 1; err == nil {
			c.results, results = results[:len(c.items):len(c.items)], results[len(c.items):]
		}
		close(c.done)
	}
}
