package work

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// answer is what a daemon answered, and what about.
type answer struct {
	stream.WorkAnswer
	ref
	said  time.Time // by the server's clock
	fence int32     // the generation of the taking, once it is started
}

// readAnswers applies what daemons answer.
func (t *term) readAnswers(ctx context.Context) error {
	purged := time.Now()
	return t.read(ctx, stream.WorkAcks, &t.answers, func(ctx context.Context, msgs []jetstream.Msg) error {
		last, err := lastOf(msgs)
		if err != nil {
			return err
		}
		told, err := t.applyAnswers(ctx, msgs)
		if err != nil {
			return err
		}
		t.answers.seq.Store(last)
		select {
		case t.grown <- struct{}{}:
		default:
		}
		if told == 0 && time.Since(purged) < time.Second {
			return nil // applying what changes nothing again changes nothing
		}
		if err := t.answers.save(ctx, t.store.Pool(), stream.WorkAcks, last); err != nil {
			return err
		}
		if time.Since(purged) >= time.Second {
			purged = time.Now()
			return t.purgeAnswers(ctx, last)
		}
		return nil
	})
}

// purgeAnswers drops what has its effects.
func (t *term) purgeAnswers(ctx context.Context, upTo uint64) error {
	s, err := t.js.Stream(ctx, stream.WorkAcks)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", stream.WorkAcks, err)
	}
	return nil
}

// applyAnswers applies answers in their order and returns how many were about
// an item. Those about the same message are applied one after the other.
func (t *term) applyAnswers(ctx context.Context, msgs []jetstream.Msg) (int, error) {
	var list []answer
	var seqs []uint64
	for _, m := range msgs {
		a, err := stream.ParseWorkAnswer(m.Subject(), m.Data())
		if err != nil {
			t.log.Warn("an answer is none", "error", err)
			continue
		}
		switch a.Kind {
		case stream.AnswerSettled:
		case stream.AnswerRefused:
			t.refused.Store(a.Seq, a.Consumer)
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
	found, err := t.batches.find(ctx, seqs)
	if err != nil {
		return 0, err
	}
	told := 0
	for _, part := range parts(list) {
		byStage := map[shard.Stage][]*answer{}
		for i := range part {
			a := &part[i]
			var ok bool
			if a.ref, ok = found[a.Seq]; ok {
				byStage[a.Stage] = append(byStage[a.Stage], a)
				t.metrics.answers.WithLabelValues(kindNames[a.Kind]).Inc()
				told++
			}
		}
		for _, stage := range shard.Queues {
			if err := t.applyAt(ctx, stage, byStage[stage]); err != nil {
				return told, err
			}
		}
	}
	return told, nil
}

var kindNames = map[stream.WorkAnswerKind]string{
	stream.AnswerAck: "ack", stream.AnswerNak: "nak", stream.AnswerTerm: "term",
	stream.AnswerProgress: "progress", stream.AnswerDead: "dead",
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

// applyAt applies answers about items of a stage, one at most for each. All
// that a daemon gave say first that a plain daemon has the item.
func (t *term) applyAt(ctx context.Context, stage shard.Stage, answers []*answer) error {
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
	held, err := t.start(ctx, stage, told)
	if err != nil {
		return err
	}
	silent, err := t.silent(ctx, stage, dead)
	if err != nil {
		return err
	}
	held = append(held, silent...)
	t.hear(held)
	if err := t.shorten(ctx, held); err != nil {
		return err
	}
	moves := map[shard.Move][]tracking.Command{}
	for _, a := range held {
		move, command, ok := a.outcome()
		if !ok {
			continue
		}
		if move == shard.Again {
			// The server would hand it out again: it must not, before the item
			// is free. See invariant 6.
			if err := remove(ctx, t.js, a.Seq); err != nil {
				return err
			}
		}
		moves[move] = append(moves[move], command)
	}
	for move, commands := range moves {
		if _, err := t.store.Apply(ctx, stage, move, commands); err != nil {
			return err
		}
		if move == shard.Fail {
			if err := t.removeDead(ctx, held); err != nil {
				return err
			}
		}
	}
	return nil
}

// start has Postgres say that plain daemons have the items, and returns the
// answers of which that is so. What they were handed before a stage was paused,
// or full, they have all the same: an answer is not thrown away.
func (t *term) start(ctx context.Context, stage shard.Stage, answers []*answer) ([]*answer, error) {
	commands := make([]tracking.Command, len(answers))
	for i, a := range answers {
		commands[i] = tracking.Command{ID: a.Item, Generation: a.Generation, Worker: stream.PlainWorker, Has: true}
	}
	results, err := t.store.Apply(ctx, stage, shard.Start, commands)
	if err != nil {
		return nil, err
	}
	var held []*answer
	for i, r := range results {
		if r.Outcome.OK() && r.Worker == stream.PlainWorker && r.Status == shard.Started {
			answers[i].fence = r.Generation
			held = append(held, answers[i])
		}
	}
	return held, nil
}

// hear notes whose daemons are at work.
func (t *term) hear(answers []*answer) {
	for _, a := range answers {
		if a.Kind == stream.AnswerProgress {
			t.orphans.hear(ref{a.Item, a.Stage, a.fence})
		}
	}
}

// silent returns of messages that the server has given up delivering those whose
// items are with a plain daemon. The others are removed: it has given up because
// they were refused, as those of a full stage are, or nobody was there to see who
// had them. What is still ready comes again by a new message, by mending. That
// one is of the same generation: what is said of a message that is gone does not
// count.
func (t *term) silent(ctx context.Context, stage shard.Stage, dead []*answer) ([]*answer, error) {
	if len(dead) == 0 {
		return nil, nil
	}
	commands := make([]tracking.Command, len(dead))
	for i, a := range dead {
		commands[i] = tracking.Command{ID: a.Item}
	}
	now, err := t.store.Look(ctx, stage, commands)
	if err != nil {
		return nil, err
	}
	var held []*answer
	for i, a := range dead {
		r := now[i]
		has := r.Status == shard.Started && r.Worker == stream.PlainWorker && r.Generation == a.Generation+1
		if has {
			if has, err = onStream(ctx, t.js, a.Seq); err != nil {
				return nil, err
			}
		}
		if has {
			a.fence = r.Generation
			held = append(held, a)
		} else if err := remove(ctx, t.js, a.Seq); err != nil {
			return nil, err
		}
	}
	return held, nil
}

// soon is how much of the delay of a negative acknowledgement may be left for
// the item to stay with the server, which hands it out again by itself.
const soon = time.Second

// shorten takes off the delays of negative acknowledgements what has passed of
// them. It goes by the server's clock, as the server does: when the delay is
// over, another daemon may have the item, and its answer counts.
func (t *term) shorten(ctx context.Context, answers []*answer) error {
	var now time.Time
	for _, a := range answers {
		if a.Kind != stream.AnswerNak || a.Delay <= soon {
			continue
		}
		if now.IsZero() {
			s, err := t.js.Stream(ctx, stream.WorkAcks)
			if err != nil {
				return fmt.Errorf("look at %s: %w", stream.WorkAcks, err)
			}
			now = s.CachedInfo().TimeStamp
		}
		a.Delay -= max(now.Sub(a.said), 0)
	}
	return nil
}

func (a *answer) outcome() (shard.Move, tracking.Command, bool) {
	c := tracking.Command{ID: a.Item, Generation: a.fence, Worker: stream.PlainWorker, Error: shard.CutError(a.Reason), Delay: a.Delay}
	switch a.Kind {
	case stream.AnswerAck:
		return shard.Complete, c, true
	case stream.AnswerTerm:
		if c.Error == "" {
			c.Error = "terminated"
		}
		return shard.Fail, c, true
	case stream.AnswerNak:
		if a.Delay > soon {
			c.Error = "negatively acknowledged"
			return shard.Again, c, true
		}
	case stream.AnswerDead:
		c.Error = fmt.Sprintf("delivered %d times without an answer", a.Deliveries)
		return shard.Fail, c, true
	}
	return 0, c, false
}

// removeDead removes messages that the server keeps though it delivers them no
// more.
func (t *term) removeDead(ctx context.Context, answers []*answer) error {
	for _, a := range answers {
		if a.Kind != stream.AnswerDead {
			continue
		}
		if err := remove(ctx, t.js, a.Seq); err != nil {
			return err
		}
	}
	return nil
}
