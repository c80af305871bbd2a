package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// plainWait bounds one request to a server.
const plainWait = 3 * time.Second

// Answers applies answers. Its fields are what it needs.
//
// Plain daemons pull from NATS with any client, and know nothing else of Millrace: what they
// acknowledge is done, what they terminate has failed, and a negative acknowledgement with
// a delay returns an item later. The moves name item and generation, as those of HTTP and
// the Go client do.
type Answers struct {
	JS    jetstream.JetStream
	Store *queue.Store
	Log   *slog.Logger
	// Find returns what messages of the work stream are about.
	Find func(ctx context.Context, seqs []uint64) (map[uint64]queue.Ref, error)
	// Refused is called for messages that the client or HTTP gave back, since
	// their items could not be started.
	Refused func(seq uint64, consumer string)
	// Heard is called for items whose daemon is at work, with the generation that
	// they have since they were started.
	Heard func(queue.Ref)
	// Count is called with the kind of each answer about an item.
	Count func(kind string)
}

// answer is what a daemon answered, and what about.
type answer struct {
	stream.WorkAnswer
	queue.Ref
	said  time.Time // by the server's clock
	taken int32     // the generation of the item since it was started
}

// Apply applies answers in their order and returns how many were about an item.
// Those about the same message are applied one after the other.
func (t *Answers) Apply(ctx context.Context, msgs []jetstream.Msg) (int, error) {
	var list []answer
	var seqs []uint64
	for _, m := range msgs {
		a, err := stream.ParseWorkAnswer(m.Subject(), m.Data())
		if err != nil {
			t.Log.Warn("a message is no answer and is passed over", "stream", stream.WorkAcks, "error", err)
			continue
		}
		switch a.Kind {
		case stream.AnswerSettled:
		case stream.AnswerRefused:
			t.Refused(a.Seq, a.Consumer)
		default:
			meta, err := m.Metadata()
			if err != nil {
				return 0, fmt.Errorf("read when an answer was given: %w", err)
			}
			list, seqs = append(list, answer{WorkAnswer: a, said: meta.Timestamp}), append(seqs, a.Seq)
		}
	}
	if len(list) == 0 {
		return 0, nil
	}
	found, err := t.Find(ctx, seqs)
	if err != nil {
		return 0, err
	}
	told := 0
	for _, part := range parts(list) {
		byQueue := map[queue.ID][]*answer{}
		for i := range part {
			a := &part[i]
			var ok bool
			if a.Ref, ok = found[a.Seq]; ok {
				byQueue[a.Queue] = append(byQueue[a.Queue], a)
				t.Count(kindNames[a.Kind])
				told++
			}
		}
		for q, answers := range byQueue {
			if err := t.applyAt(ctx, q, answers); err != nil {
				return told, err
			}
		}
	}
	return told, nil
}

var kindNames = map[stream.WorkAnswerKind]string{
	stream.AnswerAck: "ack", stream.AnswerNak: "nak", stream.AnswerTerm: "term",
	stream.AnswerProgress: "progress", stream.AnswerKept: "kept", stream.AnswerDead: "dead",
}

// parts cuts a list so that no part has two answers to one message.
func parts(list []answer) (all [][]answer) {
	seen := map[uint64]bool{}
	begin := 0
	for i := range list {
		if seen[list[i].Seq] {
			all = append(all, list[begin:i])
			begin = i
			clear(seen)
		}
		seen[list[i].Seq] = true
	}
	return append(all, list[begin:])
}

// applyAt applies answers about items of a queue, at most one for each item. Every
// answer of a daemon first records that a plain daemon has the item.
func (t *Answers) applyAt(ctx context.Context, q queue.ID, answers []*answer) error {
	if len(answers) == 0 {
		return nil
	}
	var told, dead []*answer
	for _, a := range answers {
		if a.Kind == stream.AnswerDead {
			dead = append(dead, a)
		} else {
			told = append(told, a)
		}
	}
	held, err := t.start(ctx, q, told)
	if err != nil {
		return err
	}
	if err := t.late(ctx, q, told); err != nil {
		return err
	}
	silent, err := t.silent(ctx, q, dead)
	if err != nil {
		return err
	}
	held = append(held, silent...)
	t.hear(held)
	if err := t.shorten(ctx, held); err != nil {
		return err
	}
	moves := map[item.Move][]queue.Command{}
	for _, a := range held {
		move, command, ok := a.outcome()
		if !ok {
			continue
		}
		if move == item.Again {
			// The server would hand it out again: it must not, before the item
			// is free. See invariant 6.
			if err := handout.Remove(ctx, t.JS, a.Seq); err != nil {
				return err
			}
		}
		moves[move] = append(moves[move], command)
	}
	for move, commands := range moves {
		apply := t.Store.Apply
		if move == item.Expire {
			apply = func(ctx context.Context, q queue.ID, _ item.Move, commands []queue.Command) ([]queue.Result, error) {
				return t.Store.Lapse(ctx, q, commands)
			}
		}
		if _, err := apply(ctx, q, move, commands); err != nil {
			return err
		}
		if move == item.Expire {
			if err := t.removeDead(ctx, held); err != nil {
				return err
			}
		}
	}
	return nil
}

// start records in Postgres that plain daemons have the items, and returns the
// answers about items that they do have. It starts items also at a queue that is
// paused or full: the daemons were handed them before.
func (t *Answers) start(ctx context.Context, q queue.ID, answers []*answer) ([]*answer, error) {
	commands := make([]queue.Command, len(answers))
	for i, a := range answers {
		commands[i] = queue.Command{ID: a.Item, Generation: a.Generation, Worker: stream.PlainWorker, Has: true}
	}
	results, err := t.Store.Apply(ctx, q, item.Start, commands)
	if err != nil {
		return nil, err
	}
	var held []*answer
	for i, r := range results {
		if r.Outcome.OK() && r.Worker == stream.PlainWorker && r.Status == item.Started {
			answers[i].taken = r.Generation
			held = append(held, answers[i])
		}
	}
	return held, nil
}

// late has items done that daemons have acknowledged after they were taken from them,
// if nobody has begun them since.
func (t *Answers) late(ctx context.Context, q queue.ID, answers []*answer) error {
	var commands []queue.Command
	for _, a := range answers {
		if a.Kind == stream.AnswerAck && a.taken == 0 {
			commands = append(commands, queue.Command{ID: a.Item, Generation: a.Generation + 1, Worker: stream.PlainWorker})
		}
	}
	_, err := t.Store.Apply(ctx, q, item.Complete, commands)
	return err
}

// hear notes whose daemons are at work.
func (t *Answers) hear(answers []*answer) {
	for _, a := range answers {
		if a.Kind == stream.AnswerProgress || a.Kind == stream.AnswerKept {
			t.Heard(queue.Ref{Item: a.Item, Queue: a.Queue, Generation: a.taken})
		}
	}
}

// silent takes messages that the server has given up delivering, and returns those
// whose items plain daemons have. It removes the others: they were refused, as at a
// full queue, or no leader was there to see who had them. Mending gives items that
// are still ready a new message. That has the same generation, so answers to the
// removed message do not count.
func (t *Answers) silent(ctx context.Context, q queue.ID, dead []*answer) ([]*answer, error) {
	if len(dead) == 0 {
		return nil, nil
	}
	commands := make([]queue.Command, len(dead))
	for i, a := range dead {
		commands[i] = queue.Command{ID: a.Item}
	}
	now, err := t.Store.Look(ctx, q, commands)
	if err != nil {
		return nil, err
	}
	var held []*answer
	for i, a := range dead {
		r := now[i]
		has := r.Status == item.Started && r.Worker == stream.PlainWorker && r.Generation == a.Generation+1
		if has {
			if has, err = onStream(ctx, t.JS, a.Seq); err != nil {
				return nil, err
			}
		}
		if has {
			a.taken = r.Generation
			held = append(held, a)
		} else if err := handout.Remove(ctx, t.JS, a.Seq); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// soon is how much of the delay of a negative acknowledgement may be left so that
// the server keeps the item: it hands it out again by itself.
const soon = time.Second

// shorten subtracts from the delays of negative acknowledgements the time that has
// passed since, by the server's clock. When a delay is over by that clock, another
// daemon may have the item, and its answer counts.
func (t *Answers) shorten(ctx context.Context, answers []*answer) error {
	var now time.Time
	for _, a := range answers {
		if a.Kind != stream.AnswerNak || a.Delay <= soon {
			continue
		}
		if now.IsZero() {
			s, err := t.JS.Stream(ctx, stream.WorkAcks)
			if err != nil {
				return fmt.Errorf("look at %s: %w", stream.WorkAcks, err)
			}
			now = s.CachedInfo().TimeStamp
		}
		a.Delay -= max(now.Sub(a.said), 0)
	}
	return nil
}

func (a *answer) outcome() (item.Move, queue.Command, bool) {
	c := queue.Command{
		ID: a.Item, Generation: a.taken, Worker: stream.PlainWorker, Error: item.CutError(a.Reason),
		Delay: a.Delay,
	}
	switch a.Kind {
	case stream.AnswerAck:
		return item.Complete, c, true
	case stream.AnswerTerm:
		if c.Error == "" {
			c.Error = "terminated"
		}
		return item.Fail, c, true
	case stream.AnswerNak:
		if a.Delay > soon {
			c.Error = "negatively acknowledged"
			return item.Again, c, true
		}
	case stream.AnswerDead:
		c.Error, c.Final = fmt.Sprintf("delivered %d times without an answer", a.Deliveries), true
		return item.Expire, c, true
	}
	return 0, c, false
}

// removeDead removes messages that the server does not deliver any more, but keeps.
func (t *Answers) removeDead(ctx context.Context, answers []*answer) error {
	for _, a := range answers {
		if a.Kind != stream.AnswerDead {
			continue
		}
		if err := handout.Remove(ctx, t.JS, a.Seq); err != nil {
			return err
		}
	}
	return nil
}

// onStream tells whether a message is on the work stream.
func onStream(ctx context.Context, js jetstream.JetStream, seq uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, plainWait)
	defer cancel()
	st, err := js.Stream(ctx, stream.Work)
	if err == nil {
		_, err = stream.Get(ctx, js, st, seq)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, fmt.Errorf("look for message %d of %s: %w", seq, stream.Work, err)
	}
	return err == nil, nil
}
