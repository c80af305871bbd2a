package pulls

import (
	"slices"
	"time"

	"github.com/millrace-io/millrace/schemas/stream"
)

// line has the pulls from one consumer.
type line struct {
	*broker
	name string

	holders map[conn]*holder
	queue   queue
	places  int                // requests that are at the consumer
	novices map[*pull]struct{} // of these, those of connections that have finished no item
	yielded []*pull            // those that were to wait behind others
	held    map[uint64]hold
	lapses  []handed // in the order of their ends
	resting map[*holder]struct{}
	late    map[uint64]*holder // who has let an item lapse last
}

// hold is who has an item, and until when.
type hold struct {
	by    *holder
	until time.Time
	spoke bool // it has said that it is at work
}

// handed is an item that somebody may hold until the time.
type handed struct {
	seq   uint64
	until time.Time
}

func newLine(b *broker, name string) *line {
	return &line{
		broker: b, name: name, holders: map[conn]*holder{}, held: map[uint64]hold{}, resting: map[*holder]struct{}{},
		novices: map[*pull]struct{}{}, late: map[uint64]*holder{},
	}
}

// Bounds of a line.
const (
	mostPlaces    = 1024 // requests at the consumer
	mostNewcomers = 4    // of these, those of connections that have finished no item
)

// holder is a connection that pulls from a line.
type holder struct {
	line   *line
	who    conn
	pulls  map[*pull]struct{}
	parked []*pull   // those at Nobody that are to be placed, oldest first
	placed int       // those at the consumer
	coming int       // items that these may bring
	held   int       // items that it has and has not answered
	window int       // how many it may hold
	proven bool      // it has finished an item, and let none lapse since
	lapsed int       // items that it let lapse since it has finished one
	served uint64    // when it last had a place
	silent time.Time // when it last let an item lapse
	rest   time.Time
	// resting is set until the time rest, after an item has lapsed.
	resting bool
	heard   time.Time
	at      int // in the line's queue; 0: not there
}

const (
	firstWindow = 16
	lastWindow  = 5000
	lastSilent  = 500 // by words that it is at work
	// provenPlaces is how many requests of a connection are at the consumer at a time.
	provenPlaces = 8
	// mostSlice is how many items a request at the consumer may bring.
	mostSlice = 100
)

// before tells whether h is to have a place before g.
func (h *holder) before(g *holder) bool {
	if h.rank() != g.rank() {
		return h.rank() < g.rank()
	}
	if h.held != g.held {
		return h.held < g.held
	}
	return h.served < g.served
}

// rank orders connections, the lowest first.
func (h *holder) rank() int {
	if h.proven {
		return 0
	}
	return 1 + h.lapsed
}

// consider has a holder in the queue if it may have another place.
func (h *holder) consider() {
	places := 1
	if h.proven {
		places = provenPlaces
	}
	h.line.queue.set(h, len(h.parked) > 0 && h.placed < places && h.held+h.coming < h.window && !h.resting)
}

// add takes a pull.
func (l *line) add(who conn, reply string, r request) {
	h := l.holders[who]
	if h == nil {
		h = &holder{line: l, who: who, pulls: map[*pull]struct{}{}, window: firstWindow}
		l.holders[who] = h
	}
	h.heard = time.Now()
	if len(h.pulls) >= min(max(mostPullsAll/max(l.waiting, 1), 1), mostPulls) {
		if r.Heartbeat == 0 { // else the client would ask again at once
			l.refuse(reply, 409, "Exceeded MaxWaiting")
		}
		return
	}
	p := &pull{by: h, line: l, reply: reply, asked: r, left: r.Batch, idle: true, until: h.heard.Add(r.Expires)}
	if err := p.watch(); err != nil {
		l.log.Debug("a pull is not taken", "error", err)
		return
	}
	if len(h.pulls) == 0 {
		l.waiting++
	}
	h.pulls[p] = struct{}{}
	h.parked = append(h.parked, p)
	h.consider()
	l.place()
	p.settle()
}

// settle has a pull wait at Nobody that has got no place.
func (p *pull) settle() {
	if p.idle && !p.over && p.interest == nil {
		p.park()
	}
}

// place gives out the places at the consumer.
func (l *line) place() {
	for len(l.queue) > 0 && l.places < mostPlaces {
		h := l.queue[0]
		if !h.proven && len(l.novices) >= l.mostNewcomers() {
			break
		}
		p := h.parked[0]
		h.parked = h.parked[1:]
		p.start()
		h.consider()
		if h.proven {
			l.yield()
		}
	}
	l.settle()
}

// yield has the requests of newcomers wait at the consumer behind those that are there
// now.
func (l *line) yield() {
	for p := range l.novices {
		p.leave()
		p.by.parked = slices.Insert(p.by.parked, 0, p)
		p.by.consider()
		l.yielded = append(l.yielded, p)
	}
}

// settle has pulls that have got no place wait at Nobody.
func (l *line) settle() {
	for _, p := range l.yielded {
		p.settle()
	}
	l.yielded = l.yielded[:0]
}

// mostNewcomers is how many requests of connections that have finished no item may be
// at the consumer now: there they take turns with those of others.
func (l *line) mostNewcomers() int {
	if l.places > len(l.novices) {
		return 1
	}
	return mostNewcomers
}

// hand notes that a holder has an item.
func (l *line) hand(seq uint64, h *holder) {
	if was := l.held[seq]; was.by != nil {
		if time.Until(was.until) < l.ackWait/2 { // JetStream's clock was ahead of this one
			was.by.lapse(seq)
		}
		l.release(seq)
	}
	if l.late[seq] == h {
		delete(l.late, seq)
	}
	h.held++
	l.keep(seq, hold{by: h})
}

// keep notes that the time of a holder begins.
func (l *line) keep(seq uint64, h hold) {
	until := time.Now().Add(l.ackWait)
	h.until = until
	l.held[seq] = h
	l.lapses = append(l.lapses, handed{seq, until})
}

// release notes that an item is nobody's any more.
func (l *line) release(seq uint64) {
	if h := l.held[seq].by; h != nil {
		h.held--
		delete(l.held, seq)
		h.consider()
	}
}

// answered notes what the holder of an item has said of it.
func (l *line) answered(a stream.WorkAnswer) {
	of, late := l.held[a.Seq], l.late[a.Seq]
	h := of.by
	if h == nil {
		if late != nil && (a.Kind == stream.AnswerAck || a.Kind == stream.AnswerTerm) {
			delete(l.late, a.Seq)
			late.finished()
		}
		return
	}
	h.heard = time.Now()
	switch a.Kind {
	case stream.AnswerProgress:
		if !of.spoke && h.lapsed == 0 && h.window < lastSilent {
			h.window++
		}
		of.spoke = true
		l.keep(a.Seq, of)
	case stream.AnswerAck, stream.AnswerSettled, stream.AnswerTerm:
		h.finished()
		l.release(a.Seq)
	case stream.AnswerNak, stream.AnswerRefused, stream.AnswerDead:
		l.release(a.Seq)
	}
	h.consider()
}

// finished notes that a holder has finished an item.
func (h *holder) finished() {
	h.proven, h.lapsed, h.rest = true, 0, time.Time{}
	h.window = min(max(h.window+1, firstWindow), lastWindow)
}

// lapse notes that a holder has not answered in time. Items that lapse together count
// once.
func (h *holder) lapse(seq uint64) {
	l, now := h.line, time.Now()
	l.late[seq] = h
	if now.Sub(h.silent) < l.ackWait/2 {
		return
	}
	h.proven, h.window, h.silent = false, 1, now
	if h.lapsed++; h.lapsed > lapsesAllowed {
		h.rest = now.Add(l.ackWait << min(h.lapsed-lapsesAllowed, longestRest))
		h.resting = true
		l.resting[h] = struct{}{}
	}
}

const (
	// lapsesAllowed is how often in a row a connection may be silent before it gets
	// nothing for a time, which doubles each time, longestRest times at most.
	lapsesAllowed = 1
	longestRest   = 5
)

// lapse takes back the items whose holders have been silent for the ack_wait.
func (l *line) lapse(now time.Time) {
	n := 0
	for ; n < len(l.lapses) && !now.Before(l.lapses[n].until); n++ {
		seq := l.lapses[n].seq
		if of := l.held[seq]; of.by != nil && of.until.Equal(l.lapses[n].until) {
			of.by.lapse(seq)
			l.release(seq)
		}
	}
	for h := range l.resting {
		if !now.Before(h.rest) {
			h.resting = false
			delete(l.resting, h)
			h.consider()
		}
	}
	if n > 0 {
		l.lapses = slices.Delete(l.lapses, 0, n)
	}
	l.place()
}

// forgetAfter is how long a connection is known that does nothing.
const forgetAfter = 5 * time.Minute

// sweep forgets connections that are gone, and pulls of which nothing is heard.
func (l *line) sweep(now time.Time) {
	for who, h := range l.holders {
		for p := range h.pulls {
			if now.Sub(p.until) > answerWait {
				p.end()
			}
		}
		if len(h.pulls) == 0 && h.held == 0 && !h.resting && now.Sub(h.heard) > forgetAfter {
			delete(l.holders, who)
		}
	}
	for seq, h := range l.late {
		if now.Sub(h.silent) > forgetAfter {
			delete(l.late, seq)
		}
	}
}
