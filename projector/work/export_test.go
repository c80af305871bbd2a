package work

import (
	"context"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// ErrOvertaken is for tests.
var ErrOvertaken = errOvertaken

// ReadReports begins to read reports where Postgres says, and returns what
// applies the next ones: a reader that is not alone.
func (s *Service) ReadReports(ctx context.Context) (apply func(context.Context, []jetstream.Msg) error, err error) {
	t := &term{Service: s}
	_, err = t.reports.load(ctx, s.store.Pool(), stream.Shards, math.MaxUint64)
	return t.applyAll, err
}

// Pause is for tests.
func (c Config) Pause(took, last time.Duration) time.Duration {
	return c.withDefaults().pause(took, last)
}
