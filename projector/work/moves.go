package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// answerMoves answers what clients tell, until ctx ends. Requests that come
// while others are written are written together.
func (s *Service) answerMoves(ctx context.Context) error {
	d := &desk{Service: s, lanes: map[lane]chan *part{}}
	var lanes sync.WaitGroup
	for _, stage := range shard.Queues {
		for kind := range moveOf {
			in := make(chan *part, 1024)
			d.lanes[lane{stage, stream.MoveKind(kind)}] = in
			lanes.Go(func() { d.work(ctx, lane{stage, stream.MoveKind(kind)}, in) })
		}
	}
	sub, err := s.nc.QueueSubscribe(stream.WorkMoves, "millrace", d.take)
	if err != nil {
		return fmt.Errorf("answer on %s: %w", stream.WorkMoves, err)
	}
	<-ctx.Done()
	_ = sub.Unsubscribe() // or the connection is closed
	lanes.Wait()
	return nil
}

// moveOf is what each kind of move is in the rules.
var moveOf = [...]shard.Move{
	stream.MoveStart: shard.Start, stream.MoveDone: shard.Complete, stream.MoveFail: shard.Fail,
	stream.MoveAgain: shard.Again, stream.MoveRelease: shard.Release, stream.MoveExtend: extend,
}

// extend is no move of the rules.
const extend shard.Move = -1

// desk takes requests apart by stage and kind, and answers each when all of
// its parts are durable.
type desk struct {
	*Service
	lanes map[lane]chan *part
}

type lane struct {
	stage shard.Stage
	kind  stream.MoveKind
}

// request is one that waits for its parts.
type request struct {
	msg     *nats.Msg
	answer  stream.WorkVerdicts
	waiting atomic.Int32
	failed  atomic.Pointer[error]
}

// part is what of a request goes to one lane.
type part struct {
	*request
	places   []int // of the commands within the request
	commands []tracking.Command
}

func (d *desk) take(msg *nats.Msg) {
	b, stage, err := admit(msg.Data)
	if err != nil {
		d.respond(msg, stream.WorkVerdicts{Error: err.Error(), Refused: true})
		return
	}
	r := &request{msg: msg}
	r.answer.Verdicts = make([]stream.WorkVerdict, len(b.Moves))
	parts := split(r, b)
	r.waiting.Store(int32(len(parts)))
	for kind, p := range parts {
		select {
		case d.lanes[lane{stage, kind}] <- p:
		default:
			d.end(p, errBusy)
		}
	}
}

// admit reads a request and refuses what would fail in Postgres: with it would
// fail what others have asked for and is written together with it.
func admit(data []byte) (stream.WorkMoveBatch, shard.Stage, error) {
	b, err := stream.ParseWorkMoves(data)
	if err != nil {
		return b, 0, err
	}
	stage, known := shard.ParseStage(b.Stage)
	if !known || !stage.HasQueue() {
		return b, 0, fmt.Errorf("moves: there is no stage %q with a queue", b.Stage)
	}
	if b.Lease < minLease || b.Lease > maxLease {
		return b, 0, fmt.Errorf("moves: lease has to be of %s to %s", minLease, maxLease)
	}
	if err := shard.CheckWorker(b.Worker); err != nil {
		return b, 0, fmt.Errorf("moves: %w", err)
	}
	return b, stage, nil
}

// Bounds of a lease.
const (
	minLease = time.Second
	maxLease = 24 * time.Hour
)

var errBusy = errors.New("too many requests wait")

func split(r *request, b stream.WorkMoveBatch) map[stream.MoveKind]*part {
	parts := map[stream.MoveKind]*part{}
	for i, m := range b.Moves {
		p := parts[m.Kind]
		if p == nil {
			p = &part{request: r, places: make([]int, 0, len(b.Moves)), commands: make([]tracking.Command, 0, len(b.Moves))}
			parts[m.Kind] = p
		}
		p.places = append(p.places, i)
		p.commands = append(p.commands, tracking.Command{
			ID: m.ID, Generation: m.Generation, Worker: b.Worker, Lease: b.Lease, Delay: m.Delay, Error: shard.CutError(m.Error),
		})
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
	commands := make([]tracking.Command, 0, n)
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

func (d *desk) verdicts(ctx context.Context, l lane, commands []tracking.Command) ([]stream.WorkVerdict, error) {
	verdicts := make([]stream.WorkVerdict, len(commands))
	move := moveOf[l.kind]
	if move == extend {
		extended, err := d.store.Extend(ctx, l.stage, commands)
		for i, ok := range extended {
			if !ok {
				verdicts[i].Verdict = stream.VerdictGone
			}
		}
		return verdicts, err
	}
	apply := d.store.Apply
	if move == shard.Start {
		apply = func(ctx context.Context, stage shard.Stage, _ shard.Move, commands []tracking.Command) ([]tracking.Result, error) {
			return d.store.StartHanded(ctx, stage, stream.PlainWorker, commands)
		}
	}
	results, err := apply(ctx, l.stage, move, commands)
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

func verdictOf(o shard.Outcome) stream.Verdict {
	switch o {
	case shard.Changed, shard.Repeated:
		return stream.VerdictMade
	case shard.Paused:
		return stream.VerdictPaused
	case shard.Full:
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
		d.respond(p.msg, stream.WorkVerdicts{Error: (*failed).Error()})
		return
	}
	d.respond(p.msg, p.answer)
}

func (d *desk) respond(msg *nats.Msg, answer stream.WorkVerdicts) {
	data, err := json.Marshal(answer)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		d.log.Debug("a client is not answered, and asks again", "error", err)
	}
}
