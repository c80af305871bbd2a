package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// worker is one call of Work. Items flow: pull → starts → ready → a handler →
// ends. A message is acknowledged when Postgres has the item as started; from
// then on the lease there is what holds it.
type worker struct {
	nc      *nats.Conn
	stage   string
	handler Handler
	cfg     Config
	log     *slog.Logger

	starts *mover
	ends   *mover
	says   *reporter
	ready  chan *task
	beat   *mover

	// out counts items from the pull to the end of their handler.
	out     atomic.Int64
	freed   chan struct{} // a token when out has gone down
	pace    pace
	stopped atomic.Bool               // ctx has ended: what has not begun is given back
	holdOff atomic.Pointer[time.Time] // until when nothing is pulled; nil: no such time

	// Of the one who pulls:
	behind   bool      // the last pull got so many items that there may be more
	noOffers time.Time // until when no offers are asked for

	mu   sync.Mutex
	held map[offer]*task // asked for, and their end not told yet

	handlers context.Context // ends when the grace is over

	leased atomic.Int64 // the lease of the queue, in nanoseconds; 0: it is not known yet
}

// lease is how long this worker has an item that it does not renew. Until the first item
// is taken it may be that of no queue.
func (w *worker) lease() time.Duration {
	if w.cfg.Lease != 0 {
		return w.cfg.Lease
	}
	if lease := time.Duration(w.leased.Load()); lease != 0 {
		return lease
	}
	return usualLease
}

// usualLease is that of a queue that was made without naming one.
const usualLease = 30 * time.Second

// task is an item that this worker has pulled.
type task struct {
	item       stream.WorkItem
	own        stream.QueueItem // set for an item of a user's queue
	msg        jetstream.Msg    // nil of one that was offered
	again      []jetstream.Msg  // the redelivered messages of the item, before it was started
	generation int32            // of the taking; 0: it is not started yet
	lease      time.Time        // when it was last known to be this worker's
	progress   string           // what the handler has last said that it is at
	result     json.RawMessage  // what it has said that its work has come to
	notFound   bool             // it has said so, see NotFound
	skipped    bool
	told       string // what of that the server was told
	lost       bool   // it may be held by another worker
	cancel     context.CancelCauseFunc
}

// offer names an item in the generation in which it was offered.
type offer struct {
	item       int64
	generation int32
}

func (t *task) offer() offer { return offer{t.item.ID, t.item.Generation} }

// mostAhead bounds what is taken beyond what handlers are working on.
const mostAhead = 4000

func newWorker(nc *nats.Conn, stage string, handler Handler, cfg Config) *worker {
	w := &worker{
		nc: nc, stage: stage, handler: handler, cfg: cfg, log: cfg.Log,
		ready: make(chan *task, cfg.Concurrency+mostAhead), freed: make(chan struct{}, 1), held: map[offer]*task{},
	}
	w.starts, w.ends, w.beat = newMover(w, mostAhead), newMover(w, mostAhead), newMover(w, 16)
	w.says = &reporter{w: w, in: make(chan *reported, mostAhead)}
	return w
}

func (w *worker) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	handlers, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	w.handlers = handlers
	for _, m := range []*mover{w.starts, w.ends, w.beat} {
		m.start()
	}
	w.says.start()
	var hands, side sync.WaitGroup
	for range w.cfg.Concurrency {
		hands.Go(w.work)
	}
	ended := make(chan struct{})
	side.Go(func() { w.heartbeat(ended, w.renew) })
	side.Go(func() { w.heartbeat(ended, w.expire) }) // apart from renew, which may wait for an answer
	closed := w.nc.StatusChanged(nats.CLOSED)
	defer w.nc.RemoveStatusListener(closed)
	side.Go(func() {
		select {
		case <-ctx.Done():
		case <-closed:
			stop()
		}
		w.stopped.Store(true)
		select {
		case <-time.After(w.cfg.Grace):
			cut(errStopping)
		case <-ended:
		}
	})
	err := w.pull(ctx)
	stop()
	w.starts.stop()
	close(w.ready)
	hands.Wait()
	w.says.stop()
	w.ends.stop()
	close(ended)
	side.Wait()
	w.beat.stop()
	if err == nil && w.nc.IsClosed() {
		err = fmt.Errorf("work %s: %w", w.stage, nats.ErrConnectionClosed)
	}
	return err
}

// errStopping is why a handler's context ends when the grace is over.
var errStopping = errors.New("the worker is stopping")

// askAgain is how long to wait before the server is asked again.
var askAgain = retry.Backoff{First: 20 * time.Millisecond, Most: 2 * time.Second}

// pull takes items for as long as there is room, until ctx ends. It returns an
// error only when trying again would not help.
func (w *worker) pull(ctx context.Context) error {
	var consumer jetstream.Consumer
	for ctx.Err() == nil {
		err := askAgain.Do(ctx, func() (err error) {
			if consumer == nil {
				if consumer, err = w.consumer(ctx); err != nil {
					return unlessFinal(err)
				}
			}
			if n := w.room(ctx); n > 0 {
				err = w.fetch(ctx, consumer, n)
			}
			if err != nil {
				consumer = nil
			}
			return unlessFinal(err)
		}, func(err error, wait time.Duration) {
			w.log.Debug("pulling again", "stage", w.stage, "wait", wait, "error", err)
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("work %s: %w", w.stage, err)
		}
	}
	return nil
}

// unlessFinal stops retrying after errors that stay: the connection's owner has
// closed it, or the server will never take the request.
func unlessFinal(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, errRefused) {
		return retry.Stop(err)
	}
	return err
}

func (w *worker) consumer(ctx context.Context) (jetstream.Consumer, error) {
	js, err := jetstream.New(w.nc)
	if err != nil {
		return nil, fmt.Errorf("work %s: %w", w.stage, err)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	c, err := js.Consumer(ctx, stream.Work, w.stage)
	if err == nil {
		lease := c.CachedInfo().Config.AckWait
		w.leased.Store(int64(min(max(lease, shortestLease), longestLease)))
	}
	return c, err
}

// room waits until this worker may take more items, and returns how many. A worker that
// is behind waits up to worthWaiting longer, for room that is worth a request.
func (w *worker) room(ctx context.Context) int {
	var late <-chan time.Time
	for ctx.Err() == nil {
		if until := w.holdOff.Load(); until != nil && time.Until(*until) > 0 {
			select {
			case <-time.After(time.Until(*until)):
			case <-ctx.Done():
			}
			continue
		}
		all := w.cfg.Concurrency + w.pace.ahead(w.cfg.Concurrency)
		n := all - int(w.out.Load())
		if n >= min(worthAsking, (all+3)/4) || n > 0 && !w.behind {
			return min(n, stream.MaxWorkMoves)
		}
		if n > 0 && late == nil {
			late = time.After(worthWaiting)
		}
		select {
		case <-w.freed:
		case <-late:
			return n
		case <-ctx.Done():
		}
	}
	return 0
}

// worthAsking is how many items are worth a request of a worker that is behind; one that
// has room for few asks for a quarter of them. worthWaiting is how long it waits for that.
const (
	worthAsking  = 100
	worthWaiting = 5 * time.Millisecond
)

// idleWait is how long a request for items waits at the server when there are
// none.
const idleWait = 5 * time.Second

// fetch takes up to n items that are there. When there are none it waits for one: a
// request for more would wait for the last of them while handlers have nothing to do.
func (w *worker) fetch(ctx context.Context, consumer jetstream.Consumer, n int) error {
	got, err := w.take(consumer.FetchNoWait(n))
	if err == nil && got < n && w.behind {
		var offered int
		offered, err = w.takeOffers(ctx, n-got)
		got += offered
	}
	// Others may have taken some of what there was, and a queue with several priorities has few messages at a time.
	w.behind = got > n/2 || got >= worthAsking/4
	if got > 0 || err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, idleWait)
	defer cancel()
	ctx, end := whileConnected(ctx, w.nc)
	defer end()
	_, err = w.take(consumer.Fetch(1, jetstream.FetchContext(ctx)))
	return err
}

// take has the items of messages started, and returns how many there were.
func (w *worker) take(batch jetstream.MessageBatch, err error) (n int, _ error) {
	if err != nil {
		return 0, fmt.Errorf("pull: %w", err)
	}
	for msg := range batch.Messages() {
		w.begin(msg)
		n++
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, nats.ErrTimeout) {
		return n, fmt.Errorf("pull: %w", err)
	}
	return n, nil
}

// begin asks for the item of a message.
func (w *worker) begin(msg jetstream.Msg) {
	t, err := parse(msg.Data())
	if err != nil {
		w.log.Warn("no work item", "stage", w.stage, "error", err)
		_ = msg.TermWithReason("no work item") // the server finds the message gone, or not
		return
	}
	t.msg = msg
	w.start(t)
}

func parse(body []byte) (*task, error) {
	item, err := stream.ParseWorkItem(body)
	if err != nil {
		return nil, err
	}
	t := &task{item: item, lease: time.Now()}
	if item.Filename == "" {
		t.own, err = stream.ParseQueueItem(body)
	}
	return t, err
}

// start asks for an item, unless this worker has asked for it and has not yet reported its end.
// A message is redelivered when its acknowledgement was lost, or is late. If the item were
// asked for again, the answer might arrive after its end, and the item would be worked twice.
func (w *worker) start(t *task) {
	w.mu.Lock()
	first := w.held[t.offer()]
	switch {
	case first == nil:
		w.held[t.offer()] = t
	case first.generation == 0 && t.msg != nil:
		first.again = append(first.again, t.msg)
	}
	settled := first != nil && first.generation != 0
	w.mu.Unlock()
	if settled {
		w.answer(t.msg, stream.Settled)
	}
	if first != nil {
		return
	}
	w.out.Add(1)
	w.starts.in <- &move{
		WorkMove: stream.WorkMove{
			Kind: stream.MoveStart, ID: t.item.ID, Generation: t.item.Generation, Offered: t.msg == nil,
		},
		then: func(v stream.WorkVerdict, known bool) { w.begun(t, v, known) },
	}
}

// begun hands an item to the handlers when the server says that it is this
// worker's.
func (w *worker) begun(t *task, v stream.WorkVerdict, known bool) {
	made := known && v.Verdict == stream.VerdictMade
	w.mu.Lock()
	again := t.again
	t.again = nil
	if made {
		t.generation, t.item.Attempts = v.Generation, v.Attempts
	} else {
		delete(w.held, t.offer())
	}
	w.mu.Unlock()
	text := stream.Settled
	if known && !made && v.Verdict != stream.VerdictGone {
		until := time.Now().Add(fullWait)
		w.holdOff.Store(&until)
		text = stream.Refused(fullWait) // if it is lost, the message is redelivered after the server's ack_wait
	}
	if known {
		w.answer(t.msg, text)
		for _, msg := range again {
			w.answer(msg, text)
		}
	}
	if made {
		w.ready <- t
	} else {
		w.free()
	}
}

// fullWait is how long a worker pulls nothing after the server has said that the
// queue is paused or at its limit.
const fullWait = 500 * time.Millisecond

// answer answers a message; none where an item was offered without.
func (w *worker) answer(msg jetstream.Msg, text []byte) {
	if msg == nil {
		return
	}
	if err := w.nc.Publish(msg.Reply(), text); err != nil {
		w.log.Debug("message not answered", "stage", w.stage, "error", err)
	}
}

func (w *worker) free() {
	w.out.Add(-1)
	select {
	case w.freed <- struct{}{}:
	default:
	}
}
