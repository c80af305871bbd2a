package integrity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/internal/retry"
)

// scrubs reads all streams now and from time to time, and those that are suspected.
func (c *Checker) scrubs(ctx context.Context) {
	every := time.NewTicker(c.cfg.ScrubEvery)
	defer every.Stop()
	c.scrubAll(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			c.scrubAll(ctx)
		case st := <-c.suspect:
			c.scrubOne(ctx, st)
		}
	}
}

func (c *Checker) scrubAll(ctx context.Context) {
	for _, st := range c.cfg.Streams {
		c.scrubOne(ctx, st)
	}
}

// scrubAgain is about how long a scrub that has failed waits before it begins again.
const scrubAgain = time.Minute

func (c *Checker) scrubOne(ctx context.Context, st Stream) {
	again := retry.Backoff{First: scrubAgain, Most: scrubAgain}
	_ = again.Do(ctx, func() error { return c.Scrub(ctx, st) },
		retry.WarnWait(c.log, "a stream is not scrubbed, trying again", "stream", st.Name))
}

// Scrub reads a stream from its first message to its last, and takes note of what
// the server claims to have and does not deliver. A stream that does not exist has
// nothing to read.
func (c *Checker) Scrub(ctx context.Context, st Stream) error {
	name := st.Name
	before, err := ask(ctx, c.nc, name, false)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	read, left, err := c.read(ctx, st, before)
	if err != nil {
		return fmt.Errorf("scrub %s: %w", name, err)
	}
	read = read.And(Ranges{{0, before.State.LastSeq}}) // those that have come since stand for none that is missing
	c.metrics.scrubbed(name)
	if before.State.NumDeleted > detailsLimit {
		return c.countMissing(ctx, name, before, read.Count(), left)
	}
	if left == 0 && read.Count() >= before.State.Msgs {
		return nil
	}
	lost, err := c.missing(ctx, st, before.State, read)
	if err != nil {
		return fmt.Errorf("scrub %s: %w", name, err)
	}
	return c.report(name, loss{lost: lost})
}

// countMissing takes note of messages that are missing from a stream of which too many
// are deleted to name each: if nothing has changed since before, those left are lost.
func (c *Checker) countMissing(ctx context.Context, name string, before info, read, left uint64) error {
	after, err := ask(ctx, c.nc, name, false)
	if err != nil {
		return err
	}
	short := max(left, before.State.Msgs-min(read, before.State.Msgs))
	if short == 0 || after.State.LastSeq != before.State.LastSeq || after.State.Msgs != before.State.Msgs {
		return nil
	}
	return c.report(name, loss{remark: fmt.Sprintf("the server has %d messages, and delivers %d of them less",
		before.State.Msgs, short)})
}

// report takes note of what a scrub has found.
func (c *Checker) report(name string, l loss) error {
	c.looking.Lock()
	defer c.looking.Unlock()
	if !c.found(name, l) {
		return nil
	}
	return c.save()
}

// scrubChunk is how many messages a scrub asks for at a time.
const scrubChunk = 1000

// read returns the sequences that a stream delivers, and how many more messages the
// server claims to have there.
func (c *Checker) read(ctx context.Context, st Stream, i info) (read Ranges, left uint64, err error) {
	name := st.Name
	if i.Config.Retention == jetstream.WorkQueuePolicy { // which has no room for another consumer
		read, err = c.readDirect(ctx, name, i.State)
		return read, 0, err
	}
	consumer, err := c.js.CreateConsumer(ctx, name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: st.Valid == nil, AckPolicy: jetstream.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("make a consumer: %w", err)
	}
	defer func() {
		_ = c.js.DeleteConsumer(context.WithoutCancel(ctx), name, consumer.CachedInfo().Name) // else it ends by itself
	}()
	for {
		begin := time.Now()
		seqs, last, err := fetch(consumer, st.Valid)
		if err != nil {
			return nil, 0, err
		}
		read = read.Plus(rangesOf(seqs))
		if last == 0 || last >= i.State.LastSeq {
			break
		}
		if err := c.rest(ctx, begin); err != nil {
			return nil, 0, err
		}
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("ask for the messages left: %w", err)
	}
	return read, info.NumPending, nil
}

// readDirect returns the sequences that a stream without consumers of its own gives.
func (c *Checker) readDirect(ctx context.Context, name string, s state) (read Ranges, err error) {
	for from := max(s.FirstSeq, 1); from <= s.LastSeq; {
		begin := time.Now()
		msgs, err := jetstreamext.GetBatch(ctx, c.js, name, scrubChunk, jetstreamext.GetBatchSeq(from))
		if err != nil {
			return nil, fmt.Errorf("read: %w", err)
		}
		var seqs []uint64
		for m, err := range msgs {
			if errors.Is(err, jetstreamext.ErrNoMessages) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read: %w", err)
			}
			seqs = append(seqs, m.Sequence)
		}
		if len(seqs) == 0 {
			break
		}
		read, from = read.Plus(rangesOf(seqs)), seqs[len(seqs)-1]+1
		if err := c.rest(ctx, begin); err != nil {
			return nil, err
		}
	}
	return read, nil
}

// rest pauses a scrub that has read since begin, so that it takes no more than its
// share of the time.
func (c *Checker) rest(ctx context.Context, begin time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(float64(time.Since(begin)) * (1/c.cfg.ScrubShare - 1))):
		return nil
	}
}

// fetch returns the sequences of the next messages of a consumer that are valid, and
// the last one of all.
func fetch(consumer jetstream.Consumer, valid func(jetstream.Msg) error) (seqs []uint64, last uint64, err error) {
	batch, err := consumer.FetchNoWait(scrubChunk)
	if err != nil {
		return nil, 0, fmt.Errorf("read: %w", err)
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return nil, 0, fmt.Errorf("read: %w", err)
		}
		if last = meta.Sequence.Stream; valid == nil || valid(m) == nil {
			seqs = append(seqs, last)
		}
	}
	if err := batch.Error(); err != nil {
		return nil, 0, fmt.Errorf("read: %w", err)
	}
	return seqs, last, nil
}

// askedAgain bounds how many messages are asked for one by one.
const askedAgain = 10_000

// missing returns the sequences that were neither read nor deleted, and that the
// server does not give when it is asked for them either.
func (c *Checker) missing(ctx context.Context, st Stream, s state, read Ranges) (lost Ranges, err error) {
	name := st.Name
	after, err := ask(ctx, c.nc, name, true)
	if err != nil {
		return nil, err
	}
	from := max(s.FirstSeq, after.State.FirstSeq)
	lost = after.State.lost(s.FirstSeq, s.LastSeq)
	if from > s.LastSeq {
		return lost, nil
	}
	suspects := Ranges{{from, s.LastSeq}}.Minus(read).Minus(rangesOf(after.State.Deleted))
	str, err := c.js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	asked := 0
	for _, r := range suspects {
		for seq := r.From; seq <= r.To; seq++ {
			if asked++; asked > askedAgain {
				return lost.Plus(Ranges{{seq, r.To}}), nil
			}
			if _, err := str.GetMsg(ctx, seq); err != nil || st.Valid != nil {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				lost = lost.Plus(Ranges{{seq, seq}})
			}
		}
	}
	return lost, nil
}
