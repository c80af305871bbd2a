package handout

import (
	"context"
	"fmt"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Pulled is an item that a plain daemon has by a message, and of which something is said
// in another way than by an answer to the message.
type Pulled struct {
	h     *Handout
	queue string
	seq   uint64 // of the message; 0: it is gone

	// Generation is that of the daemon's taking.
	Generation int32
}

// Pulled returns the item of a command if a plain daemon has it, or had it when it ended;
// nil if not. The command names the daemon's taking, or the generation of its message, or
// neither. An item that was handed out a moment ago is started in the daemon's name.
func (h *Handout) Pulled(ctx context.Context, of queue.Settings, c queue.Command) (*Pulled, error) {
	p, err := h.pulled(ctx, of, c)
	if err != nil {
		return nil, fmt.Errorf("find the message of item %d of %s: %w", c.ID, of.Name, err)
	}
	return p, nil
}

func (h *Handout) pulled(ctx context.Context, of queue.Settings, c queue.Command) (*Pulled, error) {
	now, err := h.store.Look(ctx, of.ID, []queue.Command{{ID: c.ID}})
	if err != nil {
		return nil, err
	}
	r := now[0]
	handed := r.Outcome != item.NotFound && r.Status == item.New && r.Generation == c.Generation
	has := r.Outcome != item.NotFound && r.Status != item.New && r.Worker == stream.PlainWorker &&
		(c.Generation == 0 || c.Generation == r.Generation || c.Generation == r.Generation-1)
	if !handed && !has {
		return nil, nil
	}
	ref := queue.Ref{Item: r.ID, Queue: of.ID, Generation: r.Generation}
	if has {
		ref.Generation-- // that of the message
	}
	p := &Pulled{h: h, queue: of.Name, Generation: ref.Generation + 1}
	at := uint64(0)
	if p.seq, at, err = h.sequence(ctx, of.Name, ref); err != nil || has {
		return p, err
	}
	if p.seq == 0 || p.seq > at {
		return nil, nil // nobody has been handed it
	}
	_, err = h.store.Apply(ctx, of.ID, item.Start, []queue.Command{
		{ID: ref.Item, Generation: ref.Generation, Worker: stream.PlainWorker, Has: true},
	})
	return p, err
}

// sequence finds the message about a readiness of an item, 0 if it is gone, and the last
// message of the queue that was handed out.
func (h *Handout) sequence(ctx context.Context, name string, r queue.Ref) (seq, at uint64, err error) {
	floor, at, err := h.passed(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	var found *int64
	err = h.store.Pool().QueryRow(ctx, sqlSequence, r.Item, r.Queue, r.Generation, int64(floor)).Scan(&found)
	if err != nil || found == nil {
		return 0, at, err
	}
	return uint64(*found), at, nil
}

// There tells whether the message is on the stream: then the server waits for the daemon.
func (p *Pulled) There() bool { return p.seq > 0 }

// Keep has the server wait for the daemon anew.
func (p *Pulled) Keep() error { return p.answer(stream.Progress) }

// Settle takes the message off the stream when the item has ended.
func (p *Pulled) Settle() error { return p.answer(stream.Settled) }

func (p *Pulled) answer(text []byte) error {
	if !p.There() {
		return nil
	}
	return p.h.nc.Publish(stream.AnswerSubject(p.queue, p.seq), text)
}

// Remove takes the message off the stream before the item is given back: the server must
// not hand it out again.
func (p *Pulled) Remove(ctx context.Context) error {
	if !p.There() {
		return nil
	}
	return Remove(ctx, p.h.js, p.seq)
}

// finishPulled ends an item that a plain daemon was handed a moment ago, so that it is not
// started yet. Without such a daemon the result is as it was.
func (h *Handout) finishPulled(
	ctx context.Context, of queue.Settings, move item.Move, c queue.Command, was queue.Result,
) (queue.Result, error) {
	pulled, err := h.Pulled(ctx, of, queue.Command{ID: was.ID, Generation: c.Generation})
	if err != nil || pulled == nil {
		return was, err
	}
	results, err := h.store.Apply(ctx, of.ID, move, []queue.Command{c})
	if err != nil {
		return was, err
	}
	if results[0].Outcome.OK() {
		_ = pulled.Settle() // lost: mending removes the message
	}
	return results[0], nil
}
