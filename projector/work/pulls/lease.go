package pulls

import (
	"slices"
	"time"
)

// The server waits for the answer to an item from when it is handed out. A client that
// asks for several has the others wait while it works on the first, so by then their
// time may be over. Here, therefore, the lease of an item begins anew with each word of
// its connection about an item that it was handed before: the server is told so. The
// oldest item of a connection has nothing but its own answers, so none is held for ever.

// hold is an item that a connection has.
type hold struct {
	seq uint64
	by  *holder

	deliveries int // with that to the holder

	place uint64    // in the order in which the line's items were handed out
	since time.Time // when its lease has begun, the last time
	until time.Time // when the server hands it to somebody else
	spoke bool      // its holder has said that it is at work

	check time.Time // when to look at it
	at    int       // among the leases
}

// leases are the items that are held, the one to look at first in front.
type leases struct {
	held   map[uint64]*hold
	checks indexed[*hold]
	placed uint64
}

// looks is how many parts a lease has: an item is looked at after half of them, and
// after each that follows.
const looks = 8

// grant notes that a holder has an item.
func (l *leases) grant(seq uint64, deliveries int, h *holder, lease time.Duration) {
	l.placed++
	of := &hold{seq: seq, by: h, deliveries: deliveries, place: l.placed}
	l.held[seq] = of
	of.begin(lease)
	l.checks.set(of, true)
}

// begin has the lease begin now.
func (h *hold) begin(lease time.Duration) {
	h.since = time.Now()
	h.until, h.check = h.since.Add(lease), h.since.Add(lease/2)
}

// anew has a lease begin anew.
func (l *leases) anew(h *hold, lease time.Duration) {
	h.begin(lease)
	l.checks.set(h, true)
}

// later has an item looked at again after a while.
func (l *leases) later(h *hold, wait time.Duration) {
	next := h.check.Add(wait)
	if h.check.Before(h.until) && next.After(h.until) {
		next = h.until
	}
	h.check = next
	l.checks.set(h, true)
}

func (l *leases) remove(h *hold) {
	delete(l.held, h.seq)
	l.checks.set(h, false)
}

// due returns an item that is to be looked at now; nil: there is none.
func (l *leases) due(now time.Time) *hold {
	if h, ok := l.checks.first(); ok && !now.Before(h.check) {
		return h
	}
	return nil
}

func (h *hold) before(g *hold) bool { return h.check.Before(g.check) }
func (h *hold) index() *int         { return &h.at }

// words are what a connection has said lately, each later and of a later item than the
// one before. Of a word that was followed by one about an earlier item nothing is left:
// whatever it kept, the other one keeps, and for longer.
type words []word

type word struct {
	place uint64 // of the item that it was about
	at    time.Time
}

// note adds what was said now. Words that come soon after another add nothing.
func (w *words) note(place uint64, now time.Time, lease time.Duration) {
	all := *w
	for len(all) > 0 && all[len(all)-1].place >= place {
		all = all[:len(all)-1]
	}
	old := 0
	for old < len(all) && now.Sub(all[old].at) > lease {
		old++
	}
	all = slices.Delete(all, 0, old)
	if n := len(all); n == 0 || now.Sub(all[n-1].at) >= lease/(2*looks) {
		all = append(all, word{place, now})
	}
	*w = all
}

// after tells whether something was said after a time about an item before a place.
func (w words) after(place uint64, since time.Time) bool {
	for i := len(w) - 1; i >= 0; i-- {
		if w[i].place < place {
			return w[i].at.After(since)
		}
	}
	return false
}
