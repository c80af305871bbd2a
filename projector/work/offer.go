package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// A client that has taken all messages of a queue off the stream asks for offers:
// items whose entries are still in the outbox. It starts them as it starts those
// whose messages it has pulled. An item that comes so needs no message, no sequence
// and no acknowledgement, which is most of what handing it out costs.

const (
	// offeredFor is how long an entry is left to whom it was offered. It comes on the
	// stream then, or is offered to others, and is still whose start comes first.
	offeredFor = 5 * time.Second
	// behindFor is how long a queue counts as one whose clients are behind, after one
	// has been offered as many items as it had asked for.
	behindFor = time.Second
	// offerSize bounds the bodies of one answer, in bytes.
	offerSize = 512 << 10
	// readAhead is how many requests' entries are read at a time, and freshFor how long
	// those that are left over are offered. What has come since and goes before them is
	// published, and clients take what is on the stream first.
	readAhead = 4
	freshFor  = 250 * time.Millisecond
	// offersAtOnce bounds how many requests are answered at a time.
	offersAtOnce = 8
)

// offers are the entries of a queue that are left to clients, or to the relay while
// it publishes them.
type offers struct {
	mu     sync.Mutex
	until  map[ref]time.Time
	ahead  []queue.Entry // read, and left to nobody yet
	read   time.Time     // when
	behind time.Time     // when a client was last offered as many as it had asked for
}

// offered returns the offers of a queue.
func (t *session) offered(q queue.ID) *offers {
	o, _ := t.offers.LoadOrStore(q, &offers{})
	return o.(*offers)
}

// free returns up to n entries at the head of a queue's outbox that are left to
// nobody, and leaves them to the caller.
func (o *offers) free(ctx context.Context, store *queue.Store, q queue.ID, n int) ([]queue.Entry, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.look(ctx, store, q, n); err != nil {
		return nil, err
	}
	return o.leave(n), nil
}

// next is free for clients that take one part of the outbox after the other: it reads
// several parts at a time.
func (o *offers) next(ctx context.Context, store *queue.Store, q queue.ID, n int) ([]queue.Entry, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ahead) < n || time.Since(o.read) > freshFor {
		if err := o.look(ctx, store, q, readAhead*n); err != nil {
			return nil, err
		}
	}
	return o.leave(n), nil
}

// look reads up to n entries at the head that are left to nobody.
func (o *offers) look(ctx context.Context, store *queue.Store, q queue.ID, n int) error {
	begin := time.Now()
	all, err := store.Outbox(ctx, q, n+len(o.until))
	if err != nil {
		return err
	}
	// What is not among the first entries any more has left the outbox.
	until := make(map[ref]time.Time, len(o.until))
	o.ahead, o.read = o.ahead[:0], begin
	for _, e := range all {
		if at, ok := o.until[e.Ref]; ok && begin.Before(at) {
			until[e.Ref] = at
		} else if len(o.ahead) < n {
			o.ahead = append(o.ahead, e)
		}
	}
	o.until = until
	return nil
}

// leave leaves up to n of the entries that were read to the caller.
func (o *offers) leave(n int) []queue.Entry {
	n = min(n, len(o.ahead))
	left := slices.Clone(o.ahead[:n])
	o.ahead = o.ahead[n:]
	at := time.Now().Add(offeredFor)
	for _, e := range left {
		o.until[e.Ref] = at
	}
	return left
}

// release leaves entries to nobody any more.
func (t *session) release(entries []queue.Entry) {
	for _, e := range entries {
		o := t.offered(e.Queue)
		o.mu.Lock()
		delete(o.until, e.Ref)
		o.mu.Unlock()
	}
}

func (o *offers) fallBehind() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.behind = time.Now()
}

// isBehind tells whether clients take what is in the outbox as fast as they can.
func (o *offers) isBehind() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Since(o.behind) < behindFor
}

// answerOffers answers requests for offers until ctx ends.
func (t *session) answerOffers(ctx context.Context) error {
	requests := make(chan *nats.Msg, 1024) // those beyond are not answered, and their clients pull messages
	sub, err := t.nc.ChanQueueSubscribe(stream.WorkOffers, "millrace", requests)
	if err != nil {
		return fmt.Errorf("answer on %s: %w", stream.WorkOffers, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // or the connection is closed
	var running sync.WaitGroup
	for range offersAtOnce {
		running.Go(func() {
			for {
				select {
				case msg := <-requests:
					t.answerOffer(ctx, msg)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	running.Wait()
	return nil
}

func (t *session) answerOffer(ctx context.Context, msg *nats.Msg) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	var answer stream.WorkVerdicts
	b, err := admit(msg.Data)
	if err == nil {
		answer.Items, err = t.offer(ctx, b.Stage, b.Offers)
	}
	if err != nil {
		answer.Error = dbpool.Message(err)
	}
	t.respond(msg, answer)
}

// offer returns the bodies of up to n items that are in the outbox. A queue that is
// paused or has limits offers nothing: what goes out is counted when it is published.
func (t *session) offer(ctx context.Context, name string, n int) ([]json.RawMessage, error) {
	i := slices.IndexFunc(t.queues(), func(v queue.Settings) bool { return v.Name == name })
	if i < 0 {
		return nil, nil // it is new
	}
	v := t.queues()[i]
	if v.Paused || v.Concurrency > 0 || v.PerGroup > 0 {
		return nil, nil
	}
	o := t.offered(v.ID)
	entries, err := o.next(ctx, t.store, v.ID, n)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	if len(entries) == n {
		o.fallBehind()
	}
	bodies, err := t.store.Bodies(ctx, refsOf(entries))
	if err != nil {
		t.release(entries)
		return nil, err
	}
	items, back := fit(entries, bodies, min(offerSize, int(t.nc.MaxPayload()/2)))
	t.release(back)
	return items, nil
}

// fit returns the bodies that go into a message of the size, and the entries that do
// not, or that have no body: the relay drops those.
func fit(entries []queue.Entry, bodies [][]byte, size int) (items []json.RawMessage, back []queue.Entry) {
	for i, e := range entries {
		if size -= len(bodies[i]); bodies[i] == nil || size < 0 {
			back = append(back, e)
			continue
		}
		items = append(items, bodies[i])
	}
	return items, back
}

// respond answers a client.
func (s *Service) respond(msg *nats.Msg, answer stream.WorkVerdicts) {
	data, err := json.Marshal(answer)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.log.Debug("a client is not answered, and asks again", "error", err)
	}
}
