package pulls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Service answers pulls. Any number of processes may run one.
type Service struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	leaseOf func(queue string) time.Duration
	log     *slog.Logger
}

// New returns a service and starts nothing. The connection is the caller's, of
// Millrace's account. leaseOf returns the lease of a queue, which is the ack_wait of its
// consumer; it must not block.
func New(nc *nats.Conn, leaseOf func(queue string) time.Duration, log *slog.Logger) (*Service, error) {
	if nc == nil || log == nil || leaseOf == nil {
		return nil, errors.New("pulls: NATS, the leases of queues and a logger are needed")
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("pulls: %w", err)
	}
	return &Service{nc: nc, js: js, leaseOf: leaseOf, log: log.With("component", "pulls")}, nil
}

const (
	queueGroup = "millrace"
	// buffered bounds what waits for the broker of each kind of message. Requests
	// beyond it are lost, and their clients send them again when they hear nothing.
	buffered = 64 << 10
	tick     = 50 * time.Millisecond
)

// Run works until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.broke(ctx) })
	g.Go(func() error { return s.relay(ctx) })
	return g.Wait()
}

// broke answers pulls until ctx ends.
func (s *Service) broke(ctx context.Context) error {
	b := newBroker(ctx, s)
	defer b.end()
	requests, answers := make(chan *nats.Msg, buffered), make(chan *nats.Msg, buffered)
	fences, elections := make(chan *nats.Msg, buffered), make(chan *nats.Msg, buffered)
	for _, subscribe := range []func() (*nats.Subscription, error){
		func() (*nats.Subscription, error) { return s.nc.ChanSubscribe(b.fences+"*", fences) },
		func() (*nats.Subscription, error) { return s.nc.ChanSubscribe(stream.WorkAckSubjects, answers) },
		func() (*nats.Subscription, error) { return s.nc.ChanSubscribe(stream.WorkLeaders, elections) },
		// On the channel of the requests, so that those come first which the connection has sent.
		func() (*nats.Subscription, error) { return s.nc.ChanSubscribe(stream.Disconnects, requests) },
		func() (*nats.Subscription, error) {
			return s.nc.ChanQueueSubscribe(stream.WorkPulls, queueGroup, requests)
		},
	} {
		sub, err := subscribe()
		if err != nil {
			return fmt.Errorf("pulls: subscribe: %w", err)
		}
		defer func() { _ = sub.Unsubscribe() }() // or the connection is closed
	}
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for {
		select {
		case m := <-requests:
			if strings.HasPrefix(m.Subject, stream.ServersPrefix) {
				b.disconnected(m)
			} else {
				b.pull(m)
			}
		case m := <-b.copies:
			b.delivered(m)
		case m := <-fences:
			b.read(m.Subject)
		case m := <-answers:
			b.answered(m)
		case m := <-elections:
			b.elected(m)
		case f := <-b.calls:
			f()
		case now := <-timer.C:
			b.expire(now)
		case <-ctx.Done():
			return nil
		}
	}
}

// nameIn returns the last part of a subject.
func nameIn(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }
