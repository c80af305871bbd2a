package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// watchEvery is how often consumers are looked at. A message that was handed
// out two looks ago and is neither answered nor started has gone to a plain
// daemon: the client and HTTP start their items at once.
const watchEvery = 200 * time.Millisecond

// watch records in Postgres which items plain daemons have, and sets consumers as
// the switches of their queues say.
func (t *session) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	marks := map[queue.ID]*mark{}
	for turn := 0; ; turn++ {
		for _, v := range t.queues() {
			if marks[v.ID] == nil {
				marks[v.ID] = &mark{}
			}
			if err := t.look(ctx, v, marks[v.ID]); err != nil {
				return stopped(ctx, err)
			}
			t.forgetRefused(v.Name, marks[v.ID].started)
		}
		if turn%3 == 0 {
			if err := t.switches(ctx); err != nil {
				return stopped(ctx, err)
			}
			if err := t.dropDeleted(ctx, marks); err != nil {
				return stopped(ctx, err)
			}
		}
		if turn%10 == 0 {
			if err := t.restore(ctx); err != nil {
				return stopped(ctx, err)
			}
		}
		tick.Reset(watchEvery) // after a look that took long, the next one waits all the same
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// restore makes anew what somebody has deleted and answers and requests of daemons need. The term ends where the stream
// of reports is not there: the next one makes it, and reads it from its start.
func (t *session) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestWait)
	defer cancel()
	made, err := stream.MendAnswers(ctx, t.js, t.cfg.Streams)
	if len(made) > 0 {
		t.log.Warn("what answers of daemons need was deleted, and is made anew: items whose answers were lost come "+
			"again after their lease", "made", made)
	}
	if err != nil {
		return err
	}
	if _, err := t.js.Stream(ctx, stream.Shards); err != nil {
		return fmt.Errorf("look at the stream %s: %w", stream.Shards, err)
	}
	return nil
}

// dropDeleted drops the consumers of queues that were deleted: watch may have made
// them anew when it did not know yet.
func (t *session) dropDeleted(ctx context.Context, marks map[queue.ID]*mark) error {
	for q := range marks {
		if slices.ContainsFunc(t.queues(), func(v queue.Settings) bool { return v.ID == q }) {
			continue
		}
		delete(marks, q)
		t.floors.Delete(q)
		if err := t.handout.Drop(ctx, t.name(q)); err != nil {
			return err
		}
	}
	return nil
}

// stopped returns nil in place of an error if ctx has ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// mark has the sequences up to which a consumer had handed messages out two looks
// ago, one look ago and now, and up to which their items are recorded as started.
type mark struct{ started, before, last, now uint64 }

func (t *session) look(ctx context.Context, of queue.Settings, m *mark) error {
	info, err := t.consumer(ctx, of.Name)
	if err != nil {
		return err
	}
	if info.Delivered.Stream < m.now {
		*m = mark{} // made anew
	}
	m.before, m.last, m.now = m.last, m.now, info.Delivered.Stream
	floor := info.AckFloor.Stream
	if info.NumAckPending == 0 {
		floor = info.Delivered.Stream // which the server's own floor takes over with the next answer
	}
	t.floors.Store(of.ID, floor)
	from := max(m.started, info.AckFloor.Stream) + 1
	if info.NumAckPending == 0 || from > m.before {
		m.started = m.before
		return nil
	}
	if err := t.startHanded(ctx, of, from, m.before); err != nil {
		return err
	}
	m.started = m.before
	return nil
}

func (t *session) consumer(ctx context.Context, name string) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	c, err := t.js.Consumer(ctx, stream.Work, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) { // of a new queue
		if err = stream.EnsureConsumer(ctx, t.js, name, t.cfg.Streams); err == nil {
			c, err = t.js.Consumer(ctx, stream.Work, name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("look at consumer %s: %w", name, err)
	}
	return c.CachedInfo(), nil
}

// forgetRefused forgets which messages of a queue were refused, up to the last one
// that watch has dealt with: it looks at each message once.
func (t *session) forgetRefused(name string, upTo uint64) {
	t.refused.Range(func(seq, of any) bool {
		if of == name && seq.(uint64) <= upTo {
			t.refused.Delete(seq)
		}
		return true
	})
}

// startHanded records in Postgres that plain daemons have the items of the messages
// between two sequences that are still on the stream and were not given back.
func (t *session) startHanded(ctx context.Context, of queue.Settings, from, to uint64) error {
	for from <= to {
		seqs, err := t.messages(ctx, of.Name, from, to)
		if err != nil || len(seqs) == 0 {
			return err
		}
		from = seqs[len(seqs)-1] + 1
		found, err := t.blocks.find(ctx, seqs)
		if err != nil {
			return err
		}
		var commands []queue.Command
		for seq, r := range found {
			if _, refused := t.refused.Load(seq); r.Queue == of.ID && !refused {
				commands = append(commands, queue.Command{
					ID: r.Item, Generation: r.Generation,
					Worker: stream.PlainWorker,
				})
			}
		}
		if _, err := t.store.Apply(ctx, of.ID, item.Start, commands); err != nil {
			return err
		}
	}
	return nil
}

// messages returns the sequences of the first messages of a queue on the
// stream, between two.
func (t *session) messages(ctx context.Context, name string, from, to uint64) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	msgs, err := jetstreamext.GetBatch(ctx, t.js, stream.Work, batchSize,
		jetstreamext.GetBatchSubject(stream.WorkSubject(name)), jetstreamext.GetBatchSeq(from))
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", stream.Work, from, err)
	}
	var seqs []uint64
	for m, err := range msgs {
		switch {
		case errors.Is(err, jetstreamext.ErrNoMessages):
			return seqs, nil
		case err != nil:
			return nil, fmt.Errorf("read %s from %d: %w", stream.Work, from, err)
		case m.Sequence > to:
			return seqs, nil
		}
		seqs = append(seqs, m.Sequence)
	}
	return seqs, nil
}

// farFuture is how long a pause lasts unless somebody resumes the queue.
const farFuture = 100 * 365 * 24 * time.Hour

// switches sets consumers as the switches of their queues say.
func (t *session) switches(ctx context.Context) error {
	if err := t.refresh(ctx); err != nil {
		return err
	}
	for _, v := range t.queues() {
		out, deliveries := v.Concurrency, v.MaxAttempts
		if out == 0 {
			out = -1
		}
		if deliveries == 0 {
			deliveries = -1
		}
		if err := t.switchTo(ctx, v, out, deliveries); err != nil {
			return fmt.Errorf("set the switches of %s: %w", v.Name, err)
		}
	}
	return nil
}

func (t *session) switchTo(ctx context.Context, of queue.Settings, out, deliveries int) error {
	t.pausing.Lock()
	defer t.pausing.Unlock()
	name, paused, lease := of.Name, of.Paused, t.cfg.lease(of)
	info, err := t.consumer(ctx, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	if cfg := info.Config; cfg.MaxAckPending != out || cfg.MaxDeliver != deliveries || cfg.AckWait != lease {
		cfg.MaxAckPending, cfg.MaxDeliver, cfg.AckWait = out, deliveries, lease
		if _, err := t.js.UpdateConsumer(ctx, stream.Work, cfg); err != nil {
			return err
		}
	}
	if info.Paused == paused {
		return nil
	}
	if paused {
		_, err = t.js.PauseConsumer(ctx, stream.Work, name, time.Now().Add(farFuture))
	} else {
		_, err = t.js.ResumeConsumer(ctx, stream.Work, name)
	}
	return err
}
