package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// answerMoves answers the moves that clients send, until ctx ends. Requests that
// come while others are being written are written together.
func (s *Service) answerMoves(ctx context.Context) error {
	d := &desk{Service: s, lanes: map[lane]chan *part{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sub, err := s.nc.QueueSubscribe(stream.WorkMoves, "millrace", func(msg *nats.Msg) { d.take(ctx, msg) })
	if err != nil {
		return fmt.Errorf("answer on %s: %w", stream.WorkMoves, err)
	}
	<-ctx.Done()
	_ = sub.Unsubscribe() // or the connection is closed
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.running.Wait()
	return nil
}

// moveOf is what each kind of move is in the rules.
var moveOf = [...]item.Move{
	stream.MoveStart: item.Start, stream.MoveDone: item.Complete, stream.MoveFail: item.Fail,
	stream.MoveAgain: item.Again, stream.MoveRelease: item.Release, stream.MoveExtend: extend,
}

// extend moves the end of a lease. It is not among the moves of package item.
const extend item.Move = -1

// desk takes requests apart by queue and kind, and answers each when all of
// its parts are durable.
type desk struct {
	*Service
	mu      sync.Mutex
	lanes   map[lane]chan *part // made when they are first used
	running sync.WaitGroup
	closed  bool
}

type lane struct {
	queue queue.ID
	kind  stream.MoveKind
}

// lane returns where parts of a kind are put; nil when the desk is closed.
func (d *desk) lane(ctx context.Context, l lane) chan *part {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.lanes[l]
	if in == nil && !d.closed {
		in = make(chan *part, 1024)
		d.lanes[l] = in
		d.running.Go(func() { d.work(ctx, l, in) })
	}
	return in
}

// request is a request of a client, which waits for its parts.
type request struct {
	msg     *nats.Msg
	answer  stream.WorkVerdicts
	waiting atomic.Int32
	failed  atomic.Pointer[error]
}

// part is the part of a request that goes to one lane.
type part struct {
	*request
	places   []int // of the commands within the request
	commands []queue.Command
}

func (d *desk) take(ctx context.Context, msg *nats.Msg) {
	b, err := admit(msg.Data)
	if err != nil {
		d.respond(msg, stream.WorkVerdicts{Error: err.Error(), Refused: true})
		return
	}
	if b.Offers > 0 {
		d.passOn(ctx, msg)
		return
	}
	looking, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	of, err := d.store.Lookup(looking, b.Stage)
	if err != nil {
		text := fmt.Sprintf("moves: find the queue %q: %s", b.Stage, dbpool.Message(err))
		d.respond(msg, stream.WorkVerdicts{Error: text, Refused: errors.Is(err, queue.ErrNoQueue)})
		return
	}
	r := &request{msg: msg}
	r.answer.Verdicts = make([]stream.WorkVerdict, len(b.Moves))
	parts := split(r, of, b)
	r.waiting.Store(int32(len(parts)))
	for kind, p := range parts {
		select {
		case d.lane(ctx, lane{of.ID, kind}) <- p:
		default:
			d.end(p, errBusy)
		}
	}
}

// passOn has the leader answer a request for offers. While there is none, nothing is
// offered.
func (d *desk) passOn(ctx context.Context, msg *nats.Msg) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, requestWait)
		defer cancel()
		answer, err := d.nc.RequestWithContext(ctx, stream.WorkOffers, msg.Data)
		if err != nil {
			d.respond(msg, stream.WorkVerdicts{})
			return
		}
		if err := msg.Respond(answer.Data); err != nil {
			d.log.Debug("a client is not answered, and asks again", "error", err)
		}
	})
}

// admit reads a request and refuses what would fail in Postgres: requests of others
// that are written together with it would fail too.
func admit(data []byte) (stream.WorkMoveBatch, error) {
	b, err := stream.ParseWorkMoves(data)
	if err != nil {
		return b, err
	}
	if b.Lease < minLease || b.Lease > maxLease {
		return b, fmt.Errorf("moves: lease has to be of %s to %s", minLease, maxLease)
	}
	if err := item.CheckWorker(b.Worker); err != nil {
		return b, fmt.Errorf("moves: %w", err)
	}
	for _, m := range b.Moves {
		if len(m.Result) > userqueue.MaxPayload || !utf8.Valid(m.Result) {
			return b, fmt.Errorf("moves: result of item %d has to be JSON of at most %d bytes, in UTF-8", m.ID,
				userqueue.MaxPayload)
		}
	}
	return b, nil
}

// Bounds of a lease.
const (
	minLease = time.Second
	maxLease = 24 * time.Hour
)

var errBusy = errors.New("too many requests wait")

func split(r *request, of queue.Settings, b stream.WorkMoveBatch) map[stream.MoveKind]*part {
	parts := map[stream.MoveKind]*part{}
	for i, m := range b.Moves {
		p := parts[m.Kind]
		if p == nil {
			p = &part{
				request: r, places: make([]int, 0, len(b.Moves)),
				commands: make([]queue.Command, 0, len(b.Moves)),
			}
			parts[m.Kind] = p
		}
		c := queue.Command{
			ID: m.ID, Generation: m.Generation, Worker: b.Worker, Lease: b.Lease, Delay: m.Delay, Backoff: m.Backoff,
			Error: item.CutError(m.Error), Result: m.Result, Offered: m.Offered,
			Progress: item.CutProgress(m.Progress),
		}
		if of.Followed && m.Kind == stream.MoveDone {
			userqueue.SettleResult(&c, m.Result)
		}
		p.places, p.commands = append(p.places, i), append(p.commands, c)
	}
	return parts
}

// work applies what comes on a lane until ctx ends.
func (d *desk) work(ctx context.Context, l lane, in chan *part) {
	for {
		var parts []*part
		select {
		case p := <-in:
			parts = append(parts, p)
		case <-ctx.Done():
			return
		}
		n := len(parts[0].commands)
		for more := true; more && n < batchSize; {
			select {
			case p := <-in:
				parts = append(parts, p)
				n += len(p.commands)
			default:
				more = false
			}
		}
		d.apply(ctx, l, parts, n)
	}
}

func (d *desk) apply(ctx context.Context, l lane, parts []*part, n int) {
	commands := make([]queue.Command, 0, n)
	for _, p := range parts {
		commands = append(commands, p.commands...)
	}
	ctx, cancel := context.WithTimeout(ctx, 4*requestWait)
	defer cancel()
	verdicts, err := d.verdicts(ctx, l, commands)
	for _, p := range parts {
		if err == nil {
			for i, place := range p.places {
				p.answer.Verdicts[place] = verdicts[i]
			}
			verdicts = verdicts[len(p.places):]
		}
		d.end(p, err)
	}
}

func (d *desk) verdicts(ctx context.Context, l lane, commands []queue.Command) ([]stream.WorkVerdict, error) {
	verdicts := make([]stream.WorkVerdict, len(commands))
	move := moveOf[l.kind]
	if move == extend {
		extended, err := d.store.Extend(ctx, l.queue, commands)
		for i, ok := range extended {
			if !ok {
				verdicts[i].Verdict = stream.VerdictGone
			}
		}
		return verdicts, err
	}
	apply := d.store.Apply
	if move == item.Start {
		apply = func(ctx context.Context, q queue.ID, _ item.Move, commands []queue.Command) ([]queue.Result, error) {
			return d.store.StartHanded(ctx, q, commands)
		}
	}
	results, err := apply(ctx, l.queue, move, commands)
	counts := map[stream.Verdict]int{}
	for i, r := range results {
		verdicts[i] = stream.WorkVerdict{Verdict: verdictOf(r.Outcome), Generation: r.Generation, Attempts: r.Attempts}
		counts[verdicts[i].Verdict]++
	}
	for v, n := range counts {
		d.metrics.moves.WithLabelValues(verdictNames[v]).Add(float64(n))
	}
	return verdicts, err
}

var verdictNames = [...]string{
	stream.VerdictMade: "made", stream.VerdictGone: "gone", stream.VerdictPaused: "paused", stream.VerdictFull: "full",
}

func verdictOf(o item.Outcome) stream.Verdict {
	switch o {
	case item.Changed, item.Repeated:
		return stream.VerdictMade
	case item.Paused:
		return stream.VerdictPaused
	case item.Full:
		return stream.VerdictFull
	}
	return stream.VerdictGone
}

// end notes that a part has been dealt with, and answers with the last one.
func (d *desk) end(p *part, err error) {
	if err != nil {
		p.failed.Store(&err)
	}
	if p.waiting.Add(-1) > 0 {
		return
	}
	if failed := p.failed.Load(); failed != nil {
		d.respond(p.msg, stream.WorkVerdicts{Error: dbpool.Message(*failed)})
		return
	}
	d.respond(p.msg, p.answer)
}
