package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

const (
	// answersAtOnce bounds the questions that are worked on, and
	// questionsWaiting those that wait for it; more are not answered.
	answersAtOnce    = 8
	questionsWaiting = 256
	// patientAtOnce bounds the questions that wait for the fold, and patient for
	// how long one does.
	patientAtOnce = 64
	patient       = time.Second
)

// reference answers publishers who ask which events are known (stream.KnownQuestion),
// from the key stores of the groups that are folded here. It runs beside the
// fold, and does not keep it.
type reference struct {
	mu      sync.RWMutex // held while a key store is read, so that none is closed meanwhile
	entries [stream.Slots]*entry

	busy    chan struct{} // one for each question worked on
	waiting chan struct{} // one for each that waits for the fold
}

// entry is a group's key store.
type entry struct {
	group slots.Group
	keys  *keystore.Store
	// folded tells whether the group is folded up to a sequence.
	folded func(seq uint64) bool
}

func newReference() *reference {
	return &reference{busy: make(chan struct{}, answersAtOnce), waiting: make(chan struct{}, patientAtOnce)}
}

// add has questions after the slots of a group answered, until the function is
// called that it returns.
func (r *reference) add(e *entry) (remove func()) {
	r.set(e.group, nil, e)
	return func() { r.set(e.group, e, nil) }
}

// set replaces an entry, or none, in all slots of the group.
func (r *reference) set(g slots.Group, from, to *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for slot := g.Number; slot < stream.Slots; slot += g.Of {
		if to != nil || r.entries[slot] == from {
			r.entries[slot] = to
		}
	}
}

// serve answers questions until the function is called that it returns.
func (r *reference) serve(nc *nats.Conn) (stop func(), err error) {
	questions := make(chan *nats.Msg, questionsWaiting) // what does not fit is dropped
	sub, err := nc.ChanSubscribe(stream.Known, questions)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-questions:
				r.take(ctx, &parts, m)
			}
		}
	})
	return func() {
		_ = sub.Unsubscribe() // else it ends with the connection
		cancel()
		parts.Wait()
	}, nil
}

// take has a question answered, when it can be. One that should wait for the fold
// while too many do gets what is known.
func (r *reference) take(ctx context.Context, parts *sync.WaitGroup, m *nats.Msg) {
	q, err := stream.ParseKnownQuestion(m.Data)
	if err != nil || m.Reply == "" {
		return
	}
	if q.NotBefore > 0 && !r.folded(&q) {
		select {
		case r.waiting <- struct{}{}:
			parts.Go(func() {
				r.await(ctx, &q)
				<-r.waiting
				r.respond(m, &q)
			})
			return
		default:
		}
	}
	r.busy <- struct{}{}
	parts.Go(func() {
		r.respond(m, &q)
		<-r.busy
	})
}

// folded tells whether the slots that are asked after, and are here, are folded
// up to where the question wants them.
func (r *reference) folded(q *stream.KnownQuestion) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for i := range q.Items {
		if e := r.entries[q.Items[i].Slot]; e != nil && !e.folded(q.NotBefore) {
			return false
		}
	}
	return true
}

// await waits a little until they are.
func (r *reference) await(ctx context.Context, q *stream.KnownQuestion) {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !r.folded(q) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// respond answers for the groups that are here, if any are that the question is
// about.
func (r *reference) respond(m *nats.Msg, q *stream.KnownQuestion) {
	answer := r.answer(q)
	if answer.Slots.Len() > 0 {
		_ = m.Respond(answer.AppendBinary(nil)) // who is not answered does without
	}
}

// answer looks up what is asked after. A store that can't be read now, and one
// whose disk is full, says nothing.
func (r *reference) answer(q *stream.KnownQuestion) (a stream.KnownAnswer) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	type part struct {
		sightings []keystore.Sighting
		places    []uint16
	}
	parts := map[*entry]*part{}
	for i := range q.Items {
		it := &q.Items[i]
		e := r.entries[it.Slot]
		if e == nil {
			continue
		}
		p := parts[e]
		if p == nil {
			p = new(part)
			parts[e] = p
		}
		p.sightings = append(p.sightings, see(it.Identity, it.Fingerprint, 0))
		p.places = append(p.places, uint16(i))
	}
	for e, p := range parts {
		if e.keys.Full() {
			continue
		}
		found, err := e.keys.Lookup(p.sightings)
		if err != nil {
			continue // the fold meets it too, and tells
		}
		for _, f := range found {
			a.Found = append(a.Found, stream.Found{Item: p.places[f.Row], Conflict: f.Conflict, Seq: f.First})
		}
		for _, place := range p.places {
			a.Slots.Add(q.Items[place].Slot)
		}
	}
	return a
}
