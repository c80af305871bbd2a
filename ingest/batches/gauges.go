package batches

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/sampler"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// mostLooks is how many messages are looked at for one whose mode is on.
const mostLooks = 100

// Gauges returns for how long batches have waited, whoever reads and stores them.
func (r *Readers) Gauges() []sampler.Source {
	messages := sampler.NewGauge("millrace_batches_waiting_messages",
		"Messages about batches that wait: on BATCHES to be read, also those whose mode is off, and on BATCHES_READ to be stored.",
		"stream")
	oldest := sampler.NewGauge("millrace_batches_waiting_seconds",
		"How long the oldest message about batches has waited. On BATCHES it is the oldest of the first 100 whose mode is on.", "stream")
	return []sampler.Source{{
		Name: "waiting batches", Gauges: []*sampler.Gauge{messages, oldest}, Every: 15 * time.Second,
		Read: func(ctx context.Context, set sampler.Set) error {
			modes, err := r.deps.Modes.Get(ctx)
			if err != nil {
				return err
			}
			for _, name := range []string{stream.Batches, stream.BatchesRead} {
				n, age, err := waiting(ctx, r.js, name, func(m *jetstream.RawStreamMsg) bool {
					about, broken := schema.ReadAnnouncement(m.Data)
					return name == stream.BatchesRead || broken != nil || modes.Take(about)
				})
				if err != nil {
					return fmt.Errorf("look what waits on %s: %w", name, err)
				}
				set(messages, float64(n), name)
				set(oldest, age.Seconds(), name)
			}
			return nil
		},
	}}
}

// waiting returns how many messages a stream has, and how long the first that counts has been there; 0 without one. Ages are
// by the server's clock alone.
func waiting(
	ctx context.Context, js jetstream.JetStream, name string, counts func(*jetstream.RawStreamMsg) bool,
) (n uint64, age time.Duration, err error) {
	s, err := js.Stream(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	info := s.CachedInfo()
	for looks, next := 0, info.State.FirstSeq; looks < mostLooks && next <= info.State.LastSeq; looks++ {
		m, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(">"))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break // they were removed meanwhile
		}
		if err != nil {
			return 0, 0, err
		}
		if counts(m) {
			return info.State.Msgs, max(0, info.TimeStamp.Sub(m.Time)), nil
		}
		next = m.Sequence + 1
	}
	return info.State.Msgs, 0, nil
}
