package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// answerMoves answers the moves that clients send, until ctx ends. The store writes
// requests together that come while others are being written.
func (s *Service) answerMoves(ctx context.Context) error {
	d := &desk{Service: s, room: make(chan struct{}, mostRequests)}
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

// desk takes requests apart by kind, and answers each when all of its moves are durable.
type desk struct {
	*Service
	room    chan struct{} // a token for each request that is under way
	mu      sync.Mutex
	running sync.WaitGroup
	closed  bool
}

// mostRequests is how many requests are under way at once; of those beyond clients hear that too many wait.
const mostRequests = 4096

// run does something on the side, unless the desk is closed.
func (d *desk) run(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.running.Go(do)
	}
}

func (d *desk) take(ctx context.Context, msg *nats.Msg) {
	b, err := admit(msg.Data)
	if err != nil {
		d.respond(msg, stream.WorkVerdicts{Error: err.Error(), Refused: true})
		return
	}
	if b.Offers > 0 {
		d.run(func() { d.passOn(ctx, msg) })
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
	select {
	case d.room <- struct{}{}:
		d.run(func() {
			defer func() { <-d.room }()
			d.respond(msg, d.answer(ctx, of, b))
		})
	default:
		d.respond(msg, stream.WorkVerdicts{Error: "too many requests wait"})
	}
}

// passOn has the leader answer a request for offers. While there is none, nothing is
// offered.
func (d *desk) passOn(ctx context.Context, msg *nats.Msg) {
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

// part is the moves of a request that are of one kind.
type part struct {
	places   []int // of the commands within the request
	commands []queue.Command
}

func split(of queue.Settings, b stream.WorkMoveBatch) map[stream.MoveKind]*part {
	parts := map[stream.MoveKind]*part{}
	for i, m := range b.Moves {
		p := parts[m.Kind]
		if p == nil {
			p = &part{places: make([]int, 0, len(b.Moves)), commands: make([]queue.Command, 0, len(b.Moves))}
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

// answer makes the moves of a request.
func (d *desk) answer(ctx context.Context, of queue.Settings, b stream.WorkMoveBatch) stream.WorkVerdicts {
	ctx, cancel := context.WithTimeout(ctx, 4*requestWait)
	defer cancel()
	a := stream.WorkVerdicts{Verdicts: make([]stream.WorkVerdict, len(b.Moves))}
	var kinds errgroup.Group
	for kind, p := range split(of, b) {
		kinds.Go(func() error {
			verdicts, err := d.verdicts(ctx, of.ID, kind, p.commands)
			for i, place := range p.places {
				a.Verdicts[place] = verdicts[i]
			}
			return err
		})
	}
	if err := kinds.Wait(); err != nil {
		return stream.WorkVerdicts{Error: dbpool.Message(err)}
	}
	return a
}

func (d *desk) verdicts(
	ctx context.Context, q queue.ID, kind stream.MoveKind, commands []queue.Command,
) ([]stream.WorkVerdict, error) {
	verdicts := make([]stream.WorkVerdict, len(commands))
	move := moveOf[kind]
	if move == extend {
		extended, err := d.store.Extend(ctx, q, commands)
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
	results, err := apply(ctx, q, move, commands)
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
