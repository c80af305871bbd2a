// Package scrape keeps values that metrics show and that a database or a server has to be
// asked for. A scrape gets the last one, and does not wait for a server that hangs: it is
// needed most at that time.
package scrape

import (
	"context"
	"sync"
	"time"
)

// Value is one such value. Its fields are set before it is used. It is safe for concurrent
// use.
type Value[V any] struct {
	Ask      func(context.Context) (V, error)
	Limit    time.Duration    // of Ask; required
	Fresh    time.Duration    // for how long a value serves without asking again
	Keep     time.Duration    // for how long it serves while asking again takes or fails
	Patience time.Duration    // for how long Get waits for an answer; default 100 ms
	Now      func() time.Time // default time.Now

	mu     sync.Mutex
	value  V
	at     time.Time     // when it was asked for; zero: there is none
	asking chan struct{} // closed at the end of the question that is under way; nil: none is
	began  time.Time     // when that question began, by the monotonic clock
}

// Get returns the value. It waits a little for a new one when the last is not fresh, but not
// for a question that others have waited for. It returns false when there is none that is
// young enough.
func (v *Value[V]) Get() (value V, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.youngerThan(v.Fresh) {
		return v.value, true
	}
	if v.asking == nil {
		v.asking, v.began = make(chan struct{}), time.Now()
		go v.ask()
	}
	v.wait(v.asking)
	if !v.youngerThan(max(v.Keep, v.Fresh)) {
		return value, false
	}
	return v.value, true
}

// ask asks, and keeps the answer.
func (v *Value[V]) ask() {
	ctx, cancel := context.WithTimeout(context.Background(), v.Limit)
	defer cancel()
	at := v.now()
	value, err := v.Ask(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.value, v.at = value, at
	}
	close(v.asking)
	v.asking = nil
}

// wait waits for the end of a question, within the patience. The lock is held, but not
// meanwhile.
func (v *Value[V]) wait(ended <-chan struct{}) {
	patience := v.Patience
	if patience == 0 {
		patience = 100 * time.Millisecond
	}
	timer := time.NewTimer(patience - time.Since(v.began))
	defer timer.Stop()
	v.mu.Unlock()
	defer v.mu.Lock()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// youngerThan tells whether there is a value of at most an age. One of the future is from
// before the clock was set back. The lock is held.
func (v *Value[V]) youngerThan(limit time.Duration) bool {
	age := v.now().Sub(v.at)
	return !v.at.IsZero() && age >= 0 && age < limit
}

func (v *Value[V]) now() time.Time {
	if v.Now == nil {
		return time.Now()
	}
	return v.Now()
}
