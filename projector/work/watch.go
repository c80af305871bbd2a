package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// watchEvery is how often consumers are looked at. A message that was handed
// out two looks ago and is neither answered nor started has gone to a plain
// daemon: others tell at once.
const watchEvery = 200 * time.Millisecond

// watch has Postgres say what plain daemons have, and consumers do what the
// switches of their stages say.
func (t *term) watch(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	marks := map[shard.Stage]*mark{}
	for _, stage := range shard.Queues {
		marks[stage] = &mark{}
	}
	for turn := 0; ; turn++ {
		for _, stage := range shard.Queues {
			if err := t.look(ctx, stage, marks[stage]); err != nil {
				return stopped(ctx, err)
			}
			t.forgetRefused(stage.String(), marks[stage].started)
		}
		if turn%3 == 0 {
			if err := t.switches(ctx); err != nil {
				return stopped(ctx, err)
			}
		}
		tick.Reset(watchEvery) // a look that took long is not followed by another at once
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// stopped turns an error that comes from the end of ctx into none.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// mark is how far a consumer had handed messages out: what has been seen to,
// two looks ago, one look ago, and now.
type mark struct{ started, before, last, now uint64 }

func (t *term) look(ctx context.Context, stage shard.Stage, m *mark) error {
	info, err := t.consumer(ctx, stage)
	if err != nil {
		return err
	}
	if info.Delivered.Stream < m.now {
		*m = mark{} // made anew
	}
	m.before, m.last, m.now = m.last, m.now, info.Delivered.Stream
	from := max(m.started, info.AckFloor.Stream) + 1
	if info.NumAckPending == 0 || from > m.before {
		m.started = m.before
		return nil
	}
	if err := t.startHanded(ctx, stage, from, m.before); err != nil {
		return err
	}
	m.started = m.before
	return nil
}

func (t *term) consumer(ctx context.Context, stage shard.Stage) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	c, err := t.js.Consumer(ctx, stream.Work, stage.String())
	if err != nil {
		return nil, fmt.Errorf("look at consumer %s: %w", stage, err)
	}
	return c.CachedInfo(), nil
}

// forgetRefused forgets which messages of a stage were refused, up to the last
// that has been seen to: each is looked at once.
func (t *term) forgetRefused(stage string, upTo uint64) {
	t.refused.Range(func(seq, of any) bool {
		if of == stage && seq.(uint64) <= upTo {
			t.refused.Delete(seq)
		}
		return true
	})
}

// startHanded has Postgres say that plain daemons have what is still on the
// stream between two sequences, and was not given back.
func (t *term) startHanded(ctx context.Context, stage shard.Stage, from, to uint64) error {
	for from <= to {
		seqs, err := t.messages(ctx, stage, from, to)
		if err != nil || len(seqs) == 0 {
			return err
		}
		from = seqs[len(seqs)-1] + 1
		found, err := t.batches.find(ctx, seqs)
		if err != nil {
			return err
		}
		var commands []tracking.Command
		for seq, r := range found {
			if _, refused := t.refused.Load(seq); r.Stage == stage && !refused {
				commands = append(commands, tracking.Command{ID: r.Item, Generation: r.Generation, Worker: stream.PlainWorker})
			}
		}
		if _, err := t.store.Apply(ctx, stage, shard.Start, commands); err != nil {
			return err
		}
	}
	return nil
}

// messages returns the sequences of the first messages of a stage on the
// stream, between two.
func (t *term) messages(ctx context.Context, stage shard.Stage, from, to uint64) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	msgs, err := jetstreamext.GetBatch(ctx, t.js, stream.Work, batchSize,
		jetstreamext.GetBatchSubject(stream.WorkSubject(stage.String())), jetstreamext.GetBatchSeq(from))
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

// farFuture is until when a stage is paused that nobody has resumed.
const farFuture = 100 * 365 * 24 * time.Hour

// switches brings consumers in line with the stages' switches.
func (t *term) switches(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	rows, err := t.store.Pool().Query(ctx, "SELECT name, paused, coalesce(concurrency, -1), coalesce(nullif(max_attempts, 0), -1) FROM millrace.stage")
	if err != nil {
		return fmt.Errorf("read the switches of stages: %w", err)
	}
	var name string
	var paused bool
	var out, deliveries int
	_, err = pgx.ForEachRow(rows, []any{&name, &paused, &out, &deliveries}, func() error {
		return t.switchTo(ctx, name, paused, out, deliveries)
	})
	if err != nil {
		return fmt.Errorf("set the switches of stages: %w", err)
	}
	return nil
}

func (t *term) switchTo(ctx context.Context, name string, paused bool, out, deliveries int) error {
	c, err := t.js.Consumer(ctx, stream.Work, name)
	if err != nil {
		return err
	}
	info := c.CachedInfo()
	if info.Config.MaxAckPending != out || info.Config.MaxDeliver != deliveries {
		cfg := info.Config
		cfg.MaxAckPending, cfg.MaxDeliver = out, deliveries
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
