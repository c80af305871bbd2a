package pulls

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"
)

// pull is a request of a client. It waits at a consumer: at that of its queue while its
// connection may have items, and at Nobody otherwise.
type pull struct {
	by    *holder
	line  *line
	reply string
	asked request
	until time.Time
	left  int  // items that its client waits for
	slice int  // items that the consumer of the queue may deliver; 0: it waits at Nobody
	idle  bool // it waits at Nobody
	over  bool

	copies *nats.Subscription // gets what its client gets
	// interest is what the request that was passed on depends on: without it JetStream
	// drops the request. It gets only the word that there is no consumer, since a
	// mapping leads all else to the client.
	interest *nats.Subscription
}

// watch has the broker get copies of what the client gets.
func (p *pull) watch() (err error) {
	p.copies, err = p.subscribe(p.reply)
	return err
}

func (p *pull) subscribe(subject string) (*nats.Subscription, error) {
	sub, err := p.line.via.ChanSubscribe(subject, p.line.copies)
	if err == nil {
		p.line.pulls[sub] = p
	}
	return sub, err
}

func (p *pull) unsubscribe(sub *nats.Subscription) {
	if sub != nil {
		delete(p.line.pulls, sub)
		_ = sub.Unsubscribe() // or the connection is closed
	}
}

// waitAt passes the request on to a consumer, and withdraws it from where it was.
func (p *pull) waitAt(consumer string, r request) {
	p.unsubscribe(p.interest)
	out := p.line.next(p.reply)
	var err error
	if p.interest, err = p.subscribe(out); err != nil {
		p.end()
		return
	}
	body, err := json.Marshal(r)
	if err != nil {
		p.line.log.Error("a pull cannot be encoded", "error", err)
	}
	p.line.ask(&nats.Msg{Subject: stream.RelayPull(consumer), Reply: out, Data: body})
}

// rest is the request for n of the items that are left of it.
func (p *pull) rest(n int) request {
	r := p.asked
	r.Batch = n
	if r.Expires > 0 {
		r.Expires = max(time.Until(p.until), time.Millisecond)
	}
	if r.Heartbeat*2 > r.Expires {
		r.Heartbeat = 0
	}
	return r
}

// How coarse the times of requests at Nobody are: it looks at all of them whenever one
// is due.
const (
	parkedUntil     = 100 * time.Millisecond
	parkedHeartbeat = 5 * time.Second
)

// park has the request wait where no items come.
func (p *pull) park() {
	r := p.rest(p.left)
	if r.Expires > 0 {
		r.Expires += parkedUntil - time.Duration(time.Now().UnixNano()+int64(r.Expires))%parkedUntil
		r.Expires = min(r.Expires, stream.MaxPullExpires)
	}
	if r.Heartbeat > 0 {
		r.Heartbeat = max(r.Heartbeat, parkedHeartbeat)
	}
	if r.Heartbeat*2 > r.Expires {
		r.Heartbeat = 0
	}
	p.idle = true
	p.waitAt(stream.Nobody, r)
}

// endsSoon is how long before its end a request at Nobody is not moved any more.
const endsSoon = 20 * time.Millisecond

// ending reports whether the consumer Nobody has ended the request, or is about to. Its client takes no more items
// for it, and loses what it is handed.
func (p *pull) ending() bool {
	return p.interest != nil && (p.asked.Expires == 0 || time.Until(p.until) < endsSoon)
}

// start has the request wait at the consumer of its queue, for as many items as its
// connection may have now.
func (p *pull) start() {
	h, l := p.by, p.line
	n := 1
	if h.proven {
		n = min(p.left, mostSlice, h.window-h.held-h.coming)
	}
	p.slice, p.idle = n, false
	h.placed++
	h.coming += n
	l.places++
	if !h.proven {
		l.novices[p] = struct{}{}
	}
	h.served = l.turn
	p.waitAt(l.name, p.rest(n))
}

// ended notes that the request has ended where it was.
func (p *pull) ended() {
	p.unsubscribe(p.interest)
	p.interest = nil
}

// leave gives up the place at the consumer.
func (p *pull) leave() {
	if p.idle {
		return
	}
	p.by.placed--
	p.by.coming -= p.slice
	p.line.places--
	delete(p.line.novices, p)
	p.slice, p.idle = 0, true
	p.line.retract(p)
}

// took notes what the client was handed.
func (p *pull) took(m *nats.Msg) {
	h, l := p.by, p.line
	if a, err := stream.ParseWorkAnswer(m.Reply, nil); err == nil {
		l.hand(a.Seq, a.Deliveries, h)
	}
	p.left--
	if !p.idle {
		p.slice--
		h.coming--
		if p.slice <= 0 {
			p.ended()
		}
	}
	if p.asked.MaxBytes > 0 {
		if p.asked.MaxBytes -= m.Size(); p.asked.MaxBytes <= 0 {
			p.left = 0
		}
	}
	switch {
	case p.left <= 0:
		p.end()
	case !p.idle && p.slice <= 0:
		p.leave()
		h.parked = slices.Insert(h.parked, 0, p)
	}
	h.consider()
}

// told notes what the client was told of the request, which has ended where it was.
func (p *pull) told(m *nats.Msg, code string) {
	pending, _ := strconv.Atoi(m.Header.Get("Nats-Pending-Messages")) // none: 0
	if code != "100" {
		p.ended()
	}
	switch {
	case code == "100":
	case code == "503":
		p.line.refuse(p.reply, 503, "")
		p.end()
	case p.idle:
		p.end()
	case code == "408" && pending > 0 && p.left > pending:
		p.leave()
		p.finish(p.left - pending)
	default:
		p.end()
	}
	p.by.consider()
}

// finish tells the client that the request has ended with so many items missing,
// beside those that it was told of.
func (p *pull) finish(missing int) {
	p.leave()
	p.waitAt(stream.Nobody, request{Batch: missing, Expires: time.Millisecond})
}

// cut ends the request before its client has all items.
func (p *pull) cut(via *nats.Conn) {
	p.ended()
	p.line.sendBy(via, timeout(p.reply, p.left, p.asked.MaxBytes))
	p.end()
}

// timeout is what JetStream says when a request ends before its client has all items.
func timeout(reply string, left, bytes int) *nats.Msg {
	m := nats.NewMsg(reply)
	m.Header.Set("Status", "408")
	m.Header.Set("Description", "Request Timeout")
	m.Header.Set("Nats-Pending-Messages", strconv.Itoa(left))
	m.Header.Set("Nats-Pending-Bytes", strconv.Itoa(bytes))
	return m
}

// end forgets the request.
func (p *pull) end() {
	if p.over {
		return
	}
	p.over = true
	p.leave()
	p.unsubscribe(p.copies)
	p.ended()
	h := p.by
	delete(h.pulls, p)
	if i := slices.Index(h.parked, p); i >= 0 {
		h.parked = slices.Delete(h.parked, i, i+1)
	}
	if len(h.pulls) == 0 {
		p.line.waiting--
	}
	h.consider()
}
