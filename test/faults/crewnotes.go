package main

import (
	"fmt"
	"sync"
	"time"
)

// piece is an item at a stage; of a user-defined queue, the item with the
// number that shard is.
type piece struct {
	file  string
	shard int
	stage string
}

// workNotes is what is known of the work of a crew from outside.
type workNotes struct {
	mu       sync.Mutex
	ends     []end          // acknowledged
	starts   []end          // acknowledged takings
	calls    map[end]int    // of handlers, as starts
	held     map[piece]held // by pollers and handlers
	asked    time.Time      // when the last request was sent that is acknowledged
	worked   time.Time      // when the last one was sent by which a piece is done
	failures []string
	leases   *clock // by which they end
}

// end is how a taking went on, by the answer to who said so. The worker's name
// is of this taking alone; one of many takings says none.
type end struct {
	piece
	move, worker string
}

// held is when somebody had a piece, for sure: unless the clock that leases go
// by has jumped.
type held struct {
	worker       string
	since, until time.Time
}

func newWorkNotes(leases *clock) *workNotes {
	return &workNotes{leases: leases, calls: map[end]int{}, held: map[piece]held{}}
}

func (n *workNotes) ended(e end) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends = append(n.ends, e)
}

// lasts tells whether a lease that was asked for at a moment has not ended by a
// jump of the clock.
func (n *workNotes) lasts(asked time.Time) bool { return n.leases.right(asked.Add(-heirsNotice)) }

// took notes that a poller, who asked for it at a moment, has a piece from now
// until its lease may end.
func (n *workNotes) took(p piece, worker string, asked, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.starts = append(n.starts, end{p, "start", worker})
	n.hold(p, worker, asked, until)
}

// began notes that a handler works a piece, which was not asked for before a
// moment, and has it until its lease may end.
func (n *workNotes) began(p piece, worker string, asked, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[end{p, "start", worker}]++
	if n.lasts(asked) {
		n.hold(p, worker, asked, until)
	}
}

// open notes that the end of a handler's call is not known to be taken: by the
// same taking it may be called again.
func (n *workNotes) open(p piece, worker string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[end{p, "start", worker}]--
}

// hold finds a piece that another has, under the lock. Who was answered when
// its lease may have been over has nothing for sure.
func (n *workNotes) hold(p piece, worker string, asked, until time.Time) {
	now := time.Now()
	if !now.Before(until) {
		return
	}
	if h, ok := n.held[p]; ok && now.Before(h.until) && n.lasts(h.since) {
		n.failures = append(n.failures, fmt.Sprintf("%v is with %s, and with %s for %s yet", p, worker, h.worker,
			h.until.Sub(now)))
	}
	n.held[p] = held{worker, asked, until}
}

// leaves notes that who has a piece is about to say something that ends that.
func (n *workNotes) leaves(p piece, worker string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.held[p].worker == worker {
		delete(n.held, p)
	}
}

func (n *workNotes) answered(asked time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if asked.After(n.asked) {
		n.asked = asked
	}
}

func (n *workNotes) lastAsked() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

func (n *workNotes) done(asked time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if asked.After(n.worked) {
		n.worked = asked
	}
}

func (n *workNotes) lastDone() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.worked
}

func (n *workNotes) fail(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.failures) < 20 {
		n.failures = append(n.failures, fmt.Sprintf(format, args...))
	}
}
