package pulls

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// relayed is how many answers a process asks for at once. One that stands still withholds at most
// these from the other processes, until its request ends and the answers are delivered again.
const relayed = 256

// young is how long an installation may take until it has its streams.
const young = 30 * time.Second

var relayBackoff = retry.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}

// relay passes on what daemons answer to messages of Work, until ctx ends.
func (s *Service) relay(ctx context.Context) error {
	start := time.Now()
	return relayBackoff.Keep(ctx, s.passOn, func(err error, wait time.Duration) {
		log := s.log.Warn
		if errors.Is(err, jetstream.ErrStreamNotFound) && time.Since(start) < young {
			log = s.log.Debug
		}
		log("answers of workers are not passed on, trying again", "error", err, "retry_in", wait)
	})
}

// passOn passes answers on until one cannot be read.
func (s *Service) passOn(ctx context.Context) error {
	c, err := s.js.Consumer(ctx, stream.WorkAckRelay, stream.WorkAckRelay)
	if err != nil {
		return err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(relayed), jetstream.PullExpiry(2*time.Second),
		jetstream.PullHeartbeat(time.Second))
	if err != nil {
		return err
	}
	defer it.Stop()
	retry.Well(ctx) // the stream is there
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		// The connection keeps the order of the two: what is off the stream was passed on before.
		err = errors.Join(s.nc.PublishMsg(&nats.Msg{Subject: stream.RelayedAck(m.Subject()), Data: m.Data()}), m.Ack())
		if err != nil {
			return err
		}
	}
}
