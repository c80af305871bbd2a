package work

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// relay publishes what is in the outbox.
type relay struct {
	*session
	next  uint64 // the sequence that the next message gets
	ahead map[queue.ID]*ahead
}

// soonFull is how soon the relay looks again at a queue that has as many messages on the
// stream as it may have. If nobody took one for stillFor, it waits for Config.Poll instead.
const (
	soonFull = 10 * time.Millisecond
	stillFor = time.Second
)

func (r *relay) run(ctx context.Context) error {
	for {
		wait, err := r.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if wait == 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.store.Announced():
		case <-time.After(wait):
		}
	}
}

// turn publishes a block and returns how long to wait for the next. After an
// error it is not known how much of it was stored: the next leader finds out.
func (r *relay) turn(ctx context.Context) (wait time.Duration, err error) {
	r.still.Lock()
	defer r.still.Unlock()
	entries, wait, err := r.gather(ctx)
	defer func() { r.release(entries) }()
	if err != nil || len(entries) == 0 {
		return wait, err
	}
	bodies, err := r.store.Bodies(ctx, refsOf(entries))
	if err != nil {
		return 0, err
	}
	// From here on the block has these sequences and no others.
	d, err := r.decide(ctx, entries, bodies)
	if err != nil || d == nil {
		return 0, err
	}
	if d.gone == 0 { // all wait for room in their queues
		return r.cfg.Poll, nil
	}
	if len(d.entries) == 0 {
		return wait, nil
	}
	b := &block{First: r.next, Refs: d.refs()}
	r.blocks.keep(b)
	if err := r.publish(ctx, b.First, b.Refs, d.bodies); err != nil {
		return 0, err
	}
	r.next = b.last() + 1
	r.metrics.published.Add(float64(len(b.Refs)))
	for _, e := range d.entries {
		r.ahead[e.Queue].add(e.Priority)
	}
	return wait, nil
}

// gather reads the entries to publish next: as many of each queue as there is room
// for on the stream, the highest priority first.
func (r *relay) gather(ctx context.Context) (entries []queue.Entry, wait time.Duration, err error) {
	waiting, err := r.store.Waiting(ctx, r.taken())
	if err != nil || len(waiting) == 0 {
		return nil, r.cfg.Poll, err
	}
	wait = r.cfg.Poll
	share := max(batchSize/len(waiting), 1)
	for q, top := range waiting {
		if r.name(q) == "" { // it is new
			if err := r.refresh(ctx); err != nil {
				return nil, 0, err
			}
		}
		if len(entries) == batchSize {
			return entries, 0, nil
		}
		room, full, err := r.room(ctx, q, top)
		if err != nil {
			return nil, 0, err
		}
		if room == 0 {
			wait = min(wait, full)
			continue
		}
		n := min(room, share, batchSize-len(entries))
		some, err := r.offered(q).free(ctx, r.store, q, n)
		if err != nil {
			return nil, 0, err
		}
		if entries = append(entries, some...); len(some) == n {
			wait = 0 // there may be more
		}
	}
	return entries, wait, nil
}

// publish puts messages on the stream, the first at the sequence first. The server
// takes each message only at the sequence that was decided for it, so only after all
// before it: it confirms the last one for all of them.
func (r *relay) publish(ctx context.Context, first uint64, refs []ref, bodies [][]byte) error {
	last := len(refs) - 1
	for i, about := range refs[:last] {
		msg := r.message(about, bodies[i])
		msg.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(first+uint64(i)-1, 10))
		if err := r.nc.PublishMsg(msg); err != nil {
			return fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	_, err := r.js.PublishMsg(ctx, r.message(refs[last], bodies[last]),
		jetstream.WithExpectLastSequence(first+uint64(last)-1), jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("publish messages %d to %d of %s: %w", first, first+uint64(last), stream.Work, err)
	}
	return nil
}

// message is the message about an item. Its header names the trace of the item, for daemons
// that know no bodies.
func (r *relay) message(about ref, body []byte) *nats.Msg {
	msg := nats.NewMsg(stream.WorkSubject(r.name(about.Queue)))
	msg.Data = body
	if traced := stream.ItemTrace(body); traced != "" {
		msg.Header.Set(stream.TraceParent, traced)
	}
	return msg
}

// jump is how far beyond every decided sequence a stream goes on after it has lost
// messages: beyond what a database that was lost may have decided, too.
const jump = 1_000_000

// sync finds out what has become of the last decided block, and finishes it.
func (r *relay) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*requestWait)
	defer cancel()
	s, err := r.js.Stream(ctx, stream.Work)
	if err != nil {
		return fmt.Errorf("look at %s: %w", stream.Work, err)
	}
	at := s.CachedInfo().State.LastSeq
	b, err := r.blocks.newest(ctx)
	if err != nil {
		return err
	}
	switch {
	case b == nil || at >= b.last():
		r.next = at + 1
		return nil
	case at >= b.First-1:
		whole, err := r.finish(ctx, b, at)
		if err != nil || whole {
			return err
		}
	}
	return r.skip(ctx, s, b)
}

// finish publishes the rest of a block. It returns false if an item of it is not
// ready any more: its message may have been stored, worked and lost.
func (r *relay) finish(ctx context.Context, b *block, at uint64) (bool, error) {
	rest := b.Refs[at+1-b.First:]
	bodies, err := r.store.Bodies(ctx, rest)
	if err != nil || slices.ContainsFunc(bodies, func(body []byte) bool { return body == nil }) {
		return false, err
	}
	if err := r.publish(ctx, at+1, rest, bodies); err != nil {
		return false, err
	}
	r.log.Info("published the rest of a block", "messages", len(rest), "from", at+1)
	r.next = b.last() + 1
	return true, nil
}

// skip empties the stream and has it go on beyond all that was decided. Mending
// then puts the ready items on it.
func (r *relay) skip(ctx context.Context, s jetstream.Stream, b *block) error {
	next := b.last() + jump
	r.log.Warn("the work stream has lost messages, and is filled again", "last", s.CachedInfo().State.LastSeq,
		"decided", b.last(), "next", next)
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(next)); err != nil {
		return fmt.Errorf("empty %s: %w", stream.Work, err)
	}
	info, err := s.Info(ctx)
	if err != nil {
		return fmt.Errorf("look at %s: %w", stream.Work, err)
	}
	if info.State.LastSeq != next-1 {
		return fmt.Errorf("%s goes on at %d and not at %d", stream.Work, info.State.LastSeq+1, next)
	}
	r.metrics.mended.WithLabelValues("stream").Inc()
	r.next = next
	return nil
}
