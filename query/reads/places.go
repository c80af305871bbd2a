package reads

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Places bound how many requests do something at one time, and how many of them one caller
// has. A free place goes to the caller that holds the fewest, and among those to the one
// that has waited longest.
type Places struct {
	what       string // that requests do, in the plural
	all, share int

	mu      sync.Mutex
	held    map[string]int // places by caller
	taken   int
	waiting []*waiter
	readers map[*reader]struct{}
}

type waiter struct {
	caller  string
	granted chan struct{}
}

// NewPlaces returns so many places, of which one caller may hold share; 0: all.
func NewPlaces(what string, all, share int) *Places {
	return &Places{
		what: what, all: all, share: cmp.Or(share, all), held: map[string]int{}, readers: map[*reader]struct{}{},
	}
}

const (
	evictEvery = 500 * time.Millisecond // how often one who waits looks for a slow reader
	// slowAfter is how long a place may be held for a reader, and slowRate what the reader has
	// to take from then on, in bytes a second, to keep it while others wait.
	slowAfter = 5 * time.Second
	slowRate  = 128 << 10
)

// Enter takes a place for the caller of the request, and returns how to leave it. It waits
// until there is one. When ctx ends before, the error is a problem that says why there was
// none.
func (p *Places) Enter(ctx context.Context) (leave func(), err error) {
	w := &waiter{auth.CallerName(ctx), make(chan struct{})}
	p.mu.Lock()
	p.waiting = append(p.waiting, w)
	p.grant()
	p.mu.Unlock()
	look := time.NewTicker(evictEvery)
	defer look.Stop()
	for {
		select {
		case <-w.granted:
			return sync.OnceFunc(func() { p.leave(w.caller) }), nil
		case <-look.C:
			p.evict(time.Now())
		case <-ctx.Done():
			return nil, p.giveUp(ctx, w)
		}
	}
}

// grant gives free places to those that wait. The lock is held.
func (p *Places) grant() {
	for p.taken < p.all {
		var next *waiter
		for _, w := range p.waiting {
			if p.held[w.caller] < p.share && (next == nil || p.held[w.caller] < p.held[next.caller]) {
				next = w
			}
		}
		if next == nil {
			return
		}
		p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool { return w == next })
		p.taken++
		p.held[next.caller]++
		close(next.granted)
	}
}

func (p *Places) leave(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.held[caller]--; p.held[caller] == 0 {
		delete(p.held, caller)
	}
	p.grant()
}

// giveUp takes one that waits out, and says why it got no place.
func (p *Places) giveUp(ctx context.Context, w *waiter) error {
	p.mu.Lock()
	select {
	case <-w.granted: // just now
		p.mu.Unlock()
		p.leave(w.caller)
		return context.Cause(ctx)
	default:
	}
	defer p.mu.Unlock()
	p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
	if ctx.Err() == context.Canceled { //nolint:errorlint // it is never wrapped
		return context.Cause(ctx)
	}
	reason := fmt.Sprintf("%d %s are under way, as many as the server does at one time", p.taken, p.what)
	if own := p.held[w.caller]; own >= p.share && p.share < p.all {
		reason = fmt.Sprintf("%d %s of yours are under way, as many as one caller may have", own, p.what)
	}
	return httpapi.NewProblem(http.StatusServiceUnavailable, reason+"; try again when one has ended").
		WithHeader("Retry-After", "10")
}

// reader is who reads what a place is held for.
type reader struct {
	io.Writer
	places *Places
	cut    func() // ends the answer

	// Under the lock of places.
	begun   time.Time
	blocked time.Time     // since when a write waits for the reader; zero: none does
	waited  time.Duration // for the reader, but for now
	bytes   int64
}

// reading returns a writer for an answer that is written while a place is held, and how to
// say that it has ended. While others wait for a place, cut is called if the answer is not
// read fast enough.
func (p *Places) reading(w io.Writer, cut func()) (out io.Writer, done func()) {
	r := &reader{Writer: w, places: p, cut: cut, begun: time.Now()}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readers[r] = struct{}{}
	return r, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.readers, r)
	}
}

// Write implements io.Writer.
func (r *reader) Write(text []byte) (int, error) {
	start := time.Now()
	r.note(func() { r.blocked = start })
	n, err := r.Writer.Write(text)
	r.note(func() { r.blocked, r.waited, r.bytes = time.Time{}, r.waited+time.Since(start), r.bytes+int64(n) })
	return n, err
}

func (r *reader) note(do func()) {
	r.places.mu.Lock()
	defer r.places.mu.Unlock()
	do()
}

// rate is how many bytes a second the reader takes. It is not slow before it has been waited
// for.
func (r *reader) rate(now time.Time) (rate float64, slow bool) {
	waited := r.waited
	if !r.blocked.IsZero() {
		waited += now.Sub(r.blocked)
	}
	if now.Sub(r.begun) < slowAfter || waited < slowAfter/2 {
		return 0, false
	}
	rate = float64(r.bytes) / waited.Seconds()
	return rate, rate < slowRate
}

// evict cuts off the slowest of the readers that are too slow, if any.
func (p *Places) evict(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var slowest *reader
	var least float64
	for r := range p.readers {
		if rate, slow := r.rate(now); slow && (slowest == nil || rate < least) {
			slowest, least = r, rate
		}
	}
	if slowest != nil {
		slowest.cut()
	}
}
