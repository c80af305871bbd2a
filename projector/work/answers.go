package work

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/ordered"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/stream"
)

// newAnswers returns what applies answers in this session.
func (t *session) newAnswers() *Answers {
	return &Answers{
		JS: t.js, Store: t.store, Log: t.log, Find: t.blocks.find, Heard: t.orphans.hear,
		Refused: func(seq uint64, consumer string) { t.refused.Store(seq, consumer) },
		Count:   func(kind string) { t.metrics.answers.WithLabelValues(kind).Inc() },
	}
}

// readAnswers applies what daemons answer. It reads all that is on the stream again,
// since that changes nothing.
func (t *session) readAnswers(ctx context.Context) error {
	lease, err := pglease.Open(ctx, t.store.Pool(), stream.WorkAcks, nil)
	if err != nil {
		return err
	}
	purged := time.Now()
	return ordered.Read(ctx, t.js, stream.WorkAcks, batchSize, func(ctx context.Context, msgs []jetstream.Msg) error {
		last, err := lastOf(msgs)
		if err != nil {
			return err
		}
		told, err := t.plain.Apply(ctx, msgs)
		if err != nil {
			return err
		}
		t.answers.Store(last)
		select {
		case t.grown <- struct{}{}:
		default:
		}
		if told == 0 && time.Since(purged) < time.Second {
			return nil // applying what changes nothing again changes nothing
		}
		if err := lease.Save(ctx, last); err != nil {
			return err
		}
		if time.Since(purged) >= time.Second {
			purged = time.Now()
			return t.purgeAnswers(ctx, last)
		}
		return nil
	})
}

// purgeAnswers removes answers whose effects are durable.
func (t *session) purgeAnswers(ctx context.Context, upTo uint64) error {
	s, err := t.js.Stream(ctx, stream.WorkAcks)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
	}
	if err != nil {
		return fmt.Errorf("purge %s: %w", stream.WorkAcks, err)
	}
	return nil
}

// lastOf is the sequence of the last message.
func lastOf(msgs []jetstream.Msg) (uint64, error) {
	meta, err := msgs[len(msgs)-1].Metadata()
	if err != nil {
		return 0, fmt.Errorf("read a message's position: %w", err)
	}
	return meta.Sequence.Stream, nil
}
