package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/stream"
)

// relay publishes what stands in the outbox.
type relay struct {
	*term
	next uint64 // the sequence that the next message gets
}

func (r *relay) run(ctx context.Context) error {
	poll := time.NewTicker(r.cfg.Poll)
	defer poll.Stop()
	for {
		n, err := r.turn(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if n == batchSize {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.kick:
		case <-poll.C:
		}
	}
}

// turn publishes a batch and returns its size. After an error it is not known
// how much of it was stored: the next term finds out.
func (r *relay) turn(ctx context.Context) (int, error) {
	r.still.Lock()
	defer r.still.Unlock()
	entries, err := r.store.Outbox(ctx, batchSize)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	b := &batch{First: r.next, Refs: make([]ref, len(entries))}
	ids := make([]int64, len(entries))
	for i, e := range entries {
		ids[i], b.Refs[i] = e.ID, ref{e.Item, e.Stage, e.Generation}
	}
	// From here on the batch has these sequences and no others.
	decided, err := r.decide(ctx, ids, b)
	if err != nil || !decided {
		return batchSize, err
	}
	r.batches.keep(b)
	if err := r.publish(ctx, b.First, entries); err != nil {
		return 0, err
	}
	r.next = b.last() + 1
	r.metrics.published.Add(float64(len(entries)))
	return len(entries), nil
}

// decide moves entries from the outbox to a batch. It changes nothing, and
// returns false, when one has been taken out of the outbox meanwhile.
func (r *relay) decide(ctx context.Context, ids []int64, b *batch) (decided bool, err error) {
	err = pgx.BeginFunc(ctx, r.store.Pool(), func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "DELETE FROM millrace.outbox WHERE id = ANY ($1::bigint[])", ids)
		if err != nil {
			return err
		}
		if decided = int(tag.RowsAffected()) == len(ids); !decided {
			return tx.Rollback(ctx)
		}
		items, stages, generations := columns(b.Refs)
		_, err = tx.Exec(ctx, "INSERT INTO millrace.work_batch (first_seq, last_seq, items, stages, generations) VALUES ($1, $2, $3, $4, $5)",
			b.First, b.last(), items, stages, generations)
		return err
	})
	if err != nil && (decided || !errors.Is(err, pgx.ErrTxClosed)) {
		return false, fmt.Errorf("decide messages %d to %d of %s: %w", b.First, b.last(), stream.Work, err)
	}
	return decided, nil
}

// publish puts the entries on the stream, from a sequence on, each only if it
// gets the sequence that was decided.
func (r *relay) publish(ctx context.Context, first uint64, entries []tracking.Entry) error {
	futures := make([]jetstream.PubAckFuture, len(entries))
	for i, e := range entries {
		data, err := json.Marshal(stream.WorkItem{
			ID: e.Item, Filename: e.Filename, Shard: int(e.Shard), Stage: e.Stage.String(),
			Generation: e.Generation, Attempts: e.Attempts, CreatedAt: e.CreatedAt.UTC(),
		})
		if err != nil {
			return fmt.Errorf("encode item %d: %w", e.Item, err)
		}
		msg := &nats.Msg{Subject: stream.WorkSubject(e.Stage.String()), Data: data}
		futures[i], err = r.js.PublishMsgAsync(msg, jetstream.WithExpectLastSequence(first+uint64(i)-1), jetstream.WithRetryAttempts(0))
		if err != nil {
			return fmt.Errorf("publish to %s: %w", msg.Subject, err)
		}
	}
	for i, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return fmt.Errorf("publish message %d of %s: %w", first+uint64(i), stream.Work, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// jump is how far beyond every decided sequence a stream goes on that has lost
// some: beyond what may have been decided in a lost database, too.
const jump = 1_000_000

// sync finds out what has become of the last decided batch, and finishes it.
func (r *relay) sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*requestWait)
	defer cancel()
	s, err := r.js.Stream(ctx, stream.Work)
	if err != nil {
		return fmt.Errorf("look at %s: %w", stream.Work, err)
	}
	at := s.CachedInfo().State.LastSeq
	b, err := r.batches.newest(ctx)
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

// finish publishes the rest of a batch, unless something has happened to an
// item of it: then its message may be one that was stored, worked and lost.
func (r *relay) finish(ctx context.Context, b *batch, at uint64) (bool, error) {
	rest := b.Refs[at+1-b.First:]
	entries, err := r.entries(ctx, rest)
	if err != nil || len(entries) < len(rest) {
		return false, err
	}
	if err := r.publish(ctx, at+1, entries); err != nil {
		return false, err
	}
	r.log.Info("published the rest of a batch", "messages", len(rest), "from", at+1)
	r.next = b.last() + 1
	return true, nil
}

// skip empties the stream and has it go on beyond all that was decided. The
// comparison puts on it what belongs there.
func (r *relay) skip(ctx context.Context, s jetstream.Stream, b *batch) error {
	next := b.last() + jump
	r.log.Warn("the work stream has lost messages, and is filled again", "last", s.CachedInfo().State.LastSeq, "decided", b.last(), "next", next)
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

// entries returns what of the refs is still ready, in their order.
func (r *relay) entries(ctx context.Context, refs []ref) ([]tracking.Entry, error) {
	ids, stages, generations := columns(refs)
	rows, err := r.store.Pool().Query(ctx, sqlStillReady, ids, stages, generations)
	if err == nil {
		var entries []tracking.Entry
		entries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e tracking.Entry, err error) {
			var stage int16
			err = row.Scan(&e.Item, &stage, &e.Generation, &e.Filename, &e.Shard, &e.Attempts, &e.CreatedAt)
			e.Stage = shardStage(stage)
			return e, err
		})
		if err == nil {
			return entries, nil
		}
	}
	return nil, fmt.Errorf("read a decided batch: %w", err)
}
