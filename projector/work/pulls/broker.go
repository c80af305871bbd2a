package pulls

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/stream"
	"github.com/nats-io/nats.go"
)

// broker decides which pulls wait at the consumers. One goroutine uses it.
type broker struct {
	*Service
	lines   map[string]*line
	pulls   map[*nats.Subscription]*pull // by where copies come from
	turn    uint64                       // counts requests that were passed on
	near    *near
	watched map[string]bool // servers to which near has, or looks for, a connection
	waiting int             // connections that have a pull
	swept   time.Time

	// retracted are the interests of requests that are to be withdrawn, by where JetStream
	// says that it has read them.
	retracted map[string]retraction
	fences    string // begins these subjects

	copies  chan *nats.Msg  // of what consumers deliver
	nothing chan *nats.Msg  // of subscriptions that get nothing
	calls   chan func()     // run by the goroutine of the broker
	ctx     context.Context // of Run
}

func newBroker(ctx context.Context, s *Service) *broker {
	b := &broker{
		Service: s, lines: map[string]*line{}, pulls: map[*nats.Subscription]*pull{},
		retracted: map[string]retraction{}, watched: map[string]bool{}, fences: s.nc.NewInbox() + ".",
		copies: make(chan *nats.Msg, buffered), nothing: make(chan *nats.Msg, 1),
		calls: make(chan func()), ctx: ctx,
	}
	b.near = &near{nc: s.nc, js: s.js, conns: map[string]*nats.Conn{}, lost: func(server string, nc *nats.Conn) {
		b.call(func() { b.lost(server, nc) })
	}}
	return b
}

// call has the goroutine of the broker call a function, unless it has ended.
func (b *broker) call(f func()) {
	select {
	case b.calls <- f:
	case <-b.ctx.Done():
	}
}

// Bounds of the requests of connections.
const (
	mostPulls    = 128 // of one
	mostPullsAll = 2048
)

// pull takes a request.
func (b *broker) pull(m *nats.Msg) {
	name := nameIn(m.Subject)
	r, fine := parse(m.Data)
	who, err := connection(m)
	switch {
	case err != nil: // nobody waits for an answer, or the request is not from a role
	case !fine:
		b.refused(name, m)
	default:
		l := b.lines[name]
		if l == nil {
			l = newLine(b, name)
			b.lines[name] = l
			l.locate()
		}
		l.add(who, m.Reply, r, time.Now())
	}
}

// refused has JetStream refuse a request, which is passed on as it is.
func (b *broker) refused(name string, m *nats.Msg) {
	out := b.next(m.Reply)
	sub, err := b.nc.ChanSubscribe(out, b.nothing)
	if err != nil {
		return
	}
	b.send(&nats.Msg{Subject: stream.RelayPull(name), Reply: out, Data: m.Data})
	time.AfterFunc(answerWait, func() { _ = sub.Unsubscribe() }) // or the connection is closed
}

// answerWait is how long JetStream may take to read a request.
const answerWait = 3 * time.Second

// next returns a subject that leads to a client's reply subject.
func (b *broker) next(reply string) string {
	b.turn++
	return stream.PullReply(reply, b.turn)
}

// conn names a connection.
type conn struct {
	account, server string
	id              uint64
}

// connection tells who has sent a request. The server says so, whatever the client has
// said.
func connection(m *nats.Msg) (c conn, err error) {
	if !strings.HasPrefix(m.Reply, stream.RepliesPrefix) {
		return c, errors.New("the request is not from another account")
	}
	var info struct {
		Account string `json:"acc"`
		Server  string `json:"server"`
		ID      uint64 `json:"id"`
	}
	err = json.Unmarshal([]byte(m.Header.Get("Nats-Request-Info")), &info)
	return conn{info.Account, info.Server, info.ID}, err
}

// disconnected ends the requests of a connection that has ended: JetStream would go on to hand
// items to them, since here their answers are waited for.
func (b *broker) disconnected(m *nats.Msg) {
	var event struct {
		Server struct {
			Name string `json:"name"`
		} `json:"server"`
		Client struct {
			Account string `json:"acc"`
			ID      uint64 `json:"id"`
		} `json:"client"`
	}
	if json.Unmarshal(m.Data, &event) != nil {
		return
	}
	who := conn{event.Client.Account, event.Server.Name, event.Client.ID}
	for _, l := range b.lines {
		if h := l.holders[who]; h != nil {
			for p := range h.pulls {
				p.end()
			}
			l.place()
		}
	}
}

// elected notes which server leads a consumer now.
func (b *broker) elected(m *nats.Msg) {
	var event struct {
		Leader string `json:"leader"`
	}
	if l := b.lines[nameIn(m.Subject)]; l != nil && json.Unmarshal(m.Data, &event) == nil {
		l.elected(event.Leader)
	}
}

// watch notices when a server of the cluster ends: one that is killed does not tell of the
// connections that have ended with it.
func (b *broker) watch(server string) {
	if b.watched[server] {
		return
	}
	b.watched[server] = true
	go func() {
		if _, err := b.near.at(server); err != nil {
			b.log.Warn("items may be handed to workers that have gone", "error", err)
		}
	}()
}

// lost ends the requests that have gone with a connection to a server of the cluster, and those
// of its clients.
func (b *broker) lost(server string, nc *nats.Conn) {
	delete(b.watched, server)
	for _, l := range b.lines {
		if l.via == nc { // else it moves already
			l.moved()
		}
		for who, h := range l.holders {
			if who.server != server {
				continue
			}
			for p := range h.pulls {
				p.cut(b.nc)
			}
		}
		l.place()
	}
}

// retract withdraws the request of a pull from the consumer once JetStream has read it: of a
// request that it reads later it would not see that nobody has an interest in it, and it
// would hand out an item that nobody gets. JetStream reads requests in order, so it has read
// that one when it answers another, which is no request.
func (l *line) retract(p *pull) {
	if p.interest == nil {
		return
	}
	delete(l.pulls, p.interest)
	l.turn++
	fence := l.fences + strconv.FormatUint(l.turn, 36)
	l.retracted[fence] = retraction{p.interest, time.Now()}
	p.interest = nil
	l.ask(&nats.Msg{Subject: stream.RelayPull(l.name), Reply: fence, Data: []byte("{")})
}

// read withdraws the request that JetStream has read.
func (b *broker) read(fence string) {
	if r, ok := b.retracted[fence]; ok {
		delete(b.retracted, fence)
		_ = r.interest.Unsubscribe() // or the connection is closed
	}
}

// retraction is an interest that ends when JetStream has read the request.
type retraction struct {
	interest *nats.Subscription
	since    time.Time
}

// delivered takes the copy of what a consumer has sent to a client.
func (b *broker) delivered(m *nats.Msg) {
	p := b.pulls[m.Sub]
	if p == nil {
		return // it came while its pull ended
	}
	if code := m.Header.Get("Status"); code != "" && len(m.Data) == 0 {
		p.told(m, code)
	} else {
		p.took(m)
	}
	p.line.place()
	p.settle()
}

// answered takes the answer of a daemon to a message.
func (b *broker) answered(m *nats.Msg) {
	a, err := stream.ParseWorkAnswer(m.Subject, m.Data)
	if err != nil {
		return // nobody takes it for an answer
	}
	if l := b.lines[a.Consumer]; l != nil {
		l.answered(a)
		l.place()
	}
}

// expire does what is due.
func (b *broker) expire(now time.Time) {
	for _, l := range b.lines {
		l.expire(now)
	}
	if now.Sub(b.swept) < sweepEvery {
		return
	}
	b.swept = now
	for fence, r := range b.retracted {
		if now.Sub(r.since) > answerWait { // there was no answer
			b.read(fence)
		}
	}
	for name, l := range b.lines {
		l.sweep(now)
		if len(l.holders) == 0 && !l.moving {
			delete(b.lines, name)
		}
	}
}

const sweepEvery = 10 * time.Second

// end has all pulls end, so that their clients pull again at once.
func (b *broker) end() {
	for _, l := range b.lines {
		for _, h := range l.holders {
			for p := range h.pulls {
				p.finish(p.left)
			}
		}
	}
	_ = b.nc.FlushTimeout(answerWait) // or the connection is closed
	for _, l := range b.lines {
		if l.via != nil {
			_ = l.via.FlushTimeout(answerWait) // the same
		}
	}
	b.near.close()
}

func (b *broker) send(m *nats.Msg) { b.sendBy(b.nc, m) }

func (b *broker) sendBy(nc *nats.Conn, m *nats.Msg) {
	if err := nc.PublishMsg(m); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		b.log.Debug("a client is not answered, and asks again", "error", err)
	}
}

// refuse tells a client why it gets nothing, where JetStream cannot say so.
func (b *broker) refuse(to string, code int, text string) {
	m := nats.NewMsg(to)
	m.Header.Set("Status", strconv.Itoa(code))
	if text != "" {
		m.Header.Set("Description", text)
	}
	b.send(m)
}
