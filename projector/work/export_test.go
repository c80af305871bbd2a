package work

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/pglease"
	"github.com/millrace-io/millrace/schemas/stream"
)

// ErrOvertaken is for tests.
var ErrOvertaken = pglease.ErrLost

// ReadReports begins to read reports where Postgres says, and returns what
// applies the next ones: a reader that is not alone.
func (s *Service) ReadReports(ctx context.Context) (apply func(context.Context, []jetstream.Msg) error, err error) {
	lease, err := pglease.Open(ctx, s.store.Pool(), stream.Shards, nil)
	return func(ctx context.Context, msgs []jetstream.Msg) error {
		var b pglease.Batch
		for _, m := range msgs {
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			b.Messages = append(b.Messages, fold.Message{
				Subject: m.Subject(), Data: m.Data(), Seq: meta.Sequence.Stream, Time: meta.Timestamp.UnixNano(),
			})
		}
		return s.applyReports(ctx, lease, b)
	}, err
}

// Pause is for tests.
func (c Config) Pause(took, last time.Duration) time.Duration {
	return c.withDefaults().pause(took, last)
}
