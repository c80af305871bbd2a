package webhooks

import (
	"sync"
	"time"

	"github.com/millrace-io/millrace/schemas/item"
)

// Pace says when the next request to a host may begin. The number of requests at a time begins at one, doubles while all
// succeed, halves when the host cannot keep up, and then grows by one for each round. With one at a time, pauses double.
// It is safe for concurrent use.
type Pace struct {
	most             int
	first, mostDelay time.Duration // between the requests to a host that goes on failing with one request at a time

	mu      sync.Mutex
	limit   float64 // requests at a time
	probing bool    // it has not failed yet: the limit doubles
	running int
	begun   uint64 // requests so far
	since   uint64 // that began before the limit was halved last: their answers halve it no more
	delay   time.Duration
	next    time.Time // no request begins before
	until   time.Time // as the host has asked
}

// NewPace returns a pace of up to most requests at a time. The pacing has no zeros.
func NewPace(most int, p item.Pacing) *Pace {
	return &Pace{most: most, first: p.Delay, mostDelay: p.MostDelay, limit: 1, probing: true}
}

// Ticket says when a request has begun, among others.
type Ticket uint64

// Begin begins up to n requests, and returns how many. Where there is none, it returns how long to wait until there
// may be one; 0: until one ends.
func (p *Pace) Begin(n int, now time.Time) (begun int, t Ticket, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = later(p.next, p.until).Sub(now); wait > 0 {
		return 0, 0, wait
	}
	if n = min(n, int(p.limit)-p.running); n <= 0 {
		return 0, 0, 0
	}
	if p.delay > 0 {
		n, p.next = 1, now.Add(p.delay)
	}
	p.running += n
	p.begun += uint64(n)
	return n, Ticket(p.begun), 0
}

// Unused ends requests that were begun and not sent.
func (p *Pace) Unused(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running -= n
}

// End ends a request with its answer.
func (p *Pace) End(t Ticket, a Answer, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	kind := a.Kind()
	busy := kind == Throttled || kind == Server || kind == Network
	if busy && a.RetryAfter != nil {
		p.until = later(p.until, now.Add(*a.RetryAfter))
	}
	switch {
	case kind == Refused: // which says nothing of the host
	case !busy:
		p.delay /= 2
		if p.delay < p.first {
			p.delay = 0
		}
		if p.probing {
			p.limit++ // each answer of a round adds one: it doubles
		} else {
			p.limit += 1 / p.limit
		}
		p.limit = min(p.limit, float64(p.most))
	case uint64(t) > p.since:
		if p.since, p.probing = p.begun, false; p.limit > 1 {
			p.limit = max(p.limit/2, 1)
		} else {
			p.delay = min(max(2*p.delay, p.first), p.mostDelay)
		}
		p.next = later(p.next, now.Add(p.delay))
	}
}

// Hold has no request begin for a while, as the host has asked another process.
func (p *Pace) Hold(wait time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = later(p.until, now.Add(wait))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
