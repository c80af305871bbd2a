package pulls

import (
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"
)

// line has the pulls from one consumer.
type line struct {
	*broker
	name  string
	lease time.Duration // of the queue

	via    *nats.Conn // to the server that leads the consumer
	leader string     // its name, as it was said last
	moving bool       // it is looked for, and requests wait in early
	moves  int        // how often it was looked for
	early  []arrival

	holders map[conn]*holder
	queue   indexed[*holder]   // those whose pulls may be placed, the first in turn first
	places  int                // requests that are at the consumer
	novices map[*pull]struct{} // of these, those of connections that have finished no item
	leases
	silent int              // items that are, or may get, with connections that were silent again and again
	late   map[uint64]lapse // who has let an item lapse last
	vacant time.Time        // until when these get no other item
	kept   time.Time        // until when no connection that has finished none gets an item
}

// arrival is a request that has come.
type arrival struct {
	who   conn
	reply string
	asked request
	at    time.Time
}

// lapse is that a connection has let an item lapse.
type lapse struct {
	by         *holder
	deliveries int // with that to it
}

func newLine(b *broker, name string) *line {
	return &line{
		broker: b, name: name, lease: b.leaseOf(name), holders: map[conn]*holder{},
		queue:   indexed[*holder]{before: (*holder).before, place: (*holder).index},
		leases:  leases{held: map[uint64]*hold{}, checks: indexed[*hold]{before: (*hold).before, place: (*hold).index}},
		novices: map[*pull]struct{}{}, late: map[uint64]lapse{},
	}
}

// Bounds of a line.
const (
	mostPlaces    = 1024 // requests at the consumer
	mostNewcomers = 4    // of these, those of connections that have finished no item
	// mostSilent is how many items may be with connections that were silent more often
	// than lapsesAllowed, or on their way to one, all of them together. So they keep no
	// more from others, however many they are, and each gets its turn to show that it is
	// back. When the item goes to somebody else, none of their requests is at the consumer.
	mostSilent = 1
	// longestVacant bounds how long these connections get no item after one of them has let
	// an item lapse. They pause for one lease, so that other connections can take the item.
	longestVacant = 5 * time.Second
	// leastVacant is how long JetStream may take to hand out an item that has lapsed.
	leastVacant = time.Second
	// lapsesAllowed is how often in a row a connection may be silent before it is one of
	// these.
	lapsesAllowed = 1
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
	spoken int       // of these, those of which it has said that it is at work
	window int       // how many it may hold
	proven bool      // it has finished an item, and let none lapse since
	lapsed int       // how often it was silent since it has finished one
	served uint64    // when it last had a place
	silent time.Time // when it last let an item lapse
	heard  time.Time
	words  words
	at     int // in the line's queue; 0: not there
	share  int // what it has of the line's silent
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

func (h *holder) index() *int { return &h.at }

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

// consider has a holder in the queue if it may have another place. It has to be called
// after each change.
func (h *holder) consider() {
	share := 0
	if h.lapsed > lapsesAllowed {
		share = h.held - h.spoken + h.coming
	}
	h.line.silent += share - h.share
	h.share = share
	places := 1
	if h.proven {
		places = provenPlaces
	}
	h.line.queue.set(h, len(h.parked) > 0 && h.placed < places && h.held+h.coming < h.window)
}

// locate looks for the server that leads the consumer.
func (l *line) locate() {
	l.moving = true
	l.moves++
	go func() {
		leader, err := l.near.leader(l.ctx, l.name)
		if err != nil {
			return // the service has ended
		}
		via, err := l.near.at(leader)
		if err != nil {
			l.log.Warn("items may be handed to workers that have gone", "queue", l.name, "error", err)
			via = l.nc
		}
		l.call(func() { l.located(leader, via) })
	}()
}

// located begins to send requests to the server that leads the consumer.
func (l *line) located(leader string, via *nats.Conn) {
	if l.leader != "" && l.leader != leader || via.IsClosed() { // it has changed meanwhile
		l.leader = ""
		l.locate()
		return
	}
	l.leader, l.via, l.moving = leader, via, false
	early := l.early
	l.early = nil
	for _, a := range early {
		l.add(a.who, a.reply, a.asked, a.at)
	}
}

// electionWait is how long JetStream may take to end the requests at a server that leads a
// consumer no more. A client that is told twice of one end asks for twice as much.
const electionWait = 300 * time.Millisecond

// elected notes that a server leads the consumer now.
func (l *line) elected(leader string) {
	switch {
	case l.leader == leader:
	case l.moving:
		l.leader = leader
	default:
		l.moving = true
		move := l.moves
		time.AfterFunc(electionWait, func() {
			l.call(func() {
				if l.moves == move {
					l.moved()
				}
			})
		})
	}
}

// moved ends the requests that are left, so that their clients ask again: the consumer is
// led elsewhere, or its server is away.
func (l *line) moved() {
	via := l.via
	if via.IsClosed() {
		via = l.nc
	}
	for _, h := range l.holders {
		for p := range h.pulls {
			p.cut(via) // behind what came that way
		}
	}
	l.leader = ""
	l.locate()
}

// ask sends JetStream a request.
func (l *line) ask(m *nats.Msg) { l.sendBy(l.via, m) }

// add takes a pull that came at a time.
func (l *line) add(who conn, reply string, r request, came time.Time) {
	until := came.Add(r.Expires)
	switch {
	case !l.moving && r.Expires > 0 && time.Now().After(until):
		l.send(timeout(reply, r.Batch, r.MaxBytes))
		return
	case !l.moving:
	case len(l.early) < mostPullsAll:
		l.early = append(l.early, arrival{who, reply, r, came})
		return
	default:
		l.refuse(reply, 409, "Exceeded MaxWaiting")
		return
	}
	h := l.holders[who]
	if h == nil {
		h = &holder{line: l, who: who, pulls: map[*pull]struct{}{}, window: firstWindow}
		l.holders[who] = h
		if l.leader != "" {
			l.watch(who.server)
		}
	}
	h.heard = time.Now()
	if len(h.pulls) >= min(max(mostPullsAll/max(l.waiting, 1), 1), mostPulls) {
		if r.Heartbeat == 0 { // else the client would ask again at once
			l.refuse(reply, 409, "Exceeded MaxWaiting")
		}
		return
	}
	p := &pull{by: h, line: l, reply: reply, asked: r, left: r.Batch, idle: true, until: until}
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
	for !l.moving && l.places < mostPlaces {
		h, ok := l.queue.first()
		if !ok {
			break
		}
		if !h.proven && (len(l.novices) >= l.mostNewcomers() || time.Until(l.kept) > 0) {
			break // and so are all behind it
		}
		resting := l.silent >= mostSilent || time.Until(l.vacant) > 0
		if h.lapsed > lapsesAllowed && resting {
			break
		}
		p := h.parked[0]
		h.parked = h.parked[1:]
		if !p.ending() {
			p.start()
		}
		h.consider()
	}
}

// mostNewcomers is how many requests of connections that have finished no item may be
// at the consumer now: there they take turns with those of others.
func (l *line) mostNewcomers() int {
	if l.places > len(l.novices) {
		return 1
	}
	return mostNewcomers
}

// hand notes that a holder has an item, which was delivered so many times.
func (l *line) hand(seq uint64, deliveries int, h *holder) {
	if was := l.held[seq]; was != nil {
		if time.Until(was.until) < l.lease/2 { // JetStream's clock was ahead of this one
			l.lapse(was)
		}
		l.release(was)
	}
	if l.late[seq].by == h {
		delete(l.late, seq)
	}
	h.held++
	l.lease = l.leaseOf(l.name) // a queue that was made a moment ago has its own by now
	l.grant(seq, deliveries, h, l.lease)
}

// release notes that an item is nobody's any more.
func (l *line) release(of *hold) {
	h := of.by
	h.held--
	if of.spoke {
		h.spoken--
	}
	l.remove(of)
	h.consider()
}

// answered notes what the holder of an item has said of it.
func (l *line) answered(a stream.WorkAnswer) {
	if a.Kind == stream.AnswerKept {
		return // Millrace has said so
	}
	of := l.held[a.Seq]
	if of == nil || a.Deliveries > 0 && a.Deliveries != of.deliveries {
		l.answeredLate(a, of)
		return
	}
	h := of.by
	h.heard = time.Now()
	h.words.note(of.place, h.heard, l.lease)
	switch a.Kind {
	case stream.AnswerProgress:
		l.spoke(of)
	case stream.AnswerAck, stream.AnswerSettled, stream.AnswerTerm:
		h.finished()
		l.release(of)
	case stream.AnswerNak, stream.AnswerRefused, stream.AnswerDead:
		l.release(of)
	}
	h.consider()
}

// answeredLate notes what was said by one who does not have the item any more. If it has
// ended with that, it is nobody's.
func (l *line) answeredLate(a stream.WorkAnswer, of *hold) {
	switch a.Kind {
	case stream.AnswerAck, stream.AnswerSettled, stream.AnswerTerm:
	default:
		return
	}
	if was := l.late[a.Seq]; was.by != nil && (a.Deliveries == 0 || a.Deliveries == was.deliveries) {
		delete(l.late, a.Seq)
		was.by.finished()
		was.by.consider()
	}
	if of != nil {
		l.release(of)
	}
}

// spoke notes that a holder is at work on an item.
func (l *line) spoke(of *hold) {
	h := of.by
	if !of.spoke {
		of.spoke = true
		h.spoken++
		if h.lapsed == 0 && h.window < lastSilent {
			h.window++
		}
	}
	l.anew(of, l.lease)
}

// finished notes that a holder has finished an item.
func (h *holder) finished() {
	h.proven, h.lapsed = true, 0
	h.window = min(max(h.window+1, firstWindow), lastWindow)
}

// lapse notes that a holder has not answered in time. Items that lapse together count
// once. Its requests at the consumer are withdrawn: they may be for many items.
func (l *line) lapse(of *hold) {
	h, now := of.by, time.Now()
	l.late[of.seq] = lapse{h, of.deliveries}
	if now.Sub(h.silent) < l.lease/2 {
		return
	}
	h.proven, h.window, h.silent = false, 1, now
	if h.lapsed++; h.lapsed > lapsesAllowed {
		l.vacant = now.Add(min(l.lease, longestVacant))
	}
	for p := range h.pulls {
		p.withdraw()
	}
}

// withdraw has a request wait for another place.
func (p *pull) withdraw() {
	if p.idle || p.over {
		return
	}
	p.leave()
	p.by.parked = slices.Insert(p.by.parked, 0, p)
	p.by.consider()
	p.settle()
}

// expire has the server wait longer for items whose connection is at work, and takes
// back those whose holders have been silent for the lease.
func (l *line) expire(now time.Time) {
	for of := l.due(now); of != nil; of = l.due(now) {
		switch {
		case of.by.words.after(of.place, of.since):
			l.send(&nats.Msg{Subject: stream.KeepSubject(l.name, of.seq), Data: stream.Progress})
			l.anew(of, l.lease)
		case !now.Before(of.until):
			l.lapse(of)
			l.release(of)
		default:
			l.keep(of, now)
			l.later(of, l.lease/looks)
		}
	}
	l.place()
}

// keep withdraws the requests of new connections shortly before one of them lets an item lapse, until the item has been handed
// out again. So a connection that has finished items gets it, if one waits. Otherwise new connections would hand it on to each
// other, each for a lease.
func (l *line) keep(of *hold, now time.Time) {
	left := of.until.Sub(now)
	if of.by.proven || left > l.lease/looks {
		return
	}
	l.kept = of.until.Add(min(max(l.lease/looks, leastVacant), longestVacant))
	for p := range l.novices {
		p.withdraw()
	}
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
		if len(h.pulls) == 0 && h.held == 0 && now.Sub(h.heard) > max(forgetAfter, 2*l.lease) {
			delete(l.holders, who)
		}
	}
	for seq, was := range l.late {
		if now.Sub(was.by.silent) > max(forgetAfter, 2*l.lease) {
			delete(l.late, seq)
		}
	}
}
