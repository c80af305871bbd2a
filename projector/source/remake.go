package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/millrace-io/millrace/projector/source/wire"
)

// check makes the consumer again when it is broken, for as long as it takes.
func (s *Source) check(ctx context.Context) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		reason := s.reason()
		if reason == nil {
			return nil
		}
		err := s.remake(ctx)
		if err == nil {
			if !errors.Is(reason, errNew) {
				s.log.Info("consumer made again", "stream", s.cfg.Stream, "consumer", s.cfg.Consumer, "reason", reason)
			}
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.log.Warn("consumer can't be made", "stream", s.cfg.Stream, "consumer", s.cfg.Consumer, "reason", reason, "error", err, "retry_in", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// reason says why the consumer can't be trusted, or nil.
func (s *Source) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.broken != nil:
	case s.asked > 0 && time.Since(s.alive) > silence:
		s.broken = errSilent
	}
	return s.broken
}

// remake replaces the consumer by one that starts after the last message
// received. What a consumer remembers is never relied on.
func (s *Source) remake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.Close()
	s.mu.Lock()
	next := s.last + 1
	s.mu.Unlock()

	// A name of its own each time: whoever has been replaced and does not know
	// it yet can't take this one away.
	old, name := s.name, s.cfg.Consumer+"-"+nuid.Next()
	_, err := s.js.CreateConsumer(ctx, s.cfg.Stream, jetstream.ConsumerConfig{
		Name:           name,
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    next,
		FilterSubjects: s.cfg.Subjects,
		// The checkpoint says what is done. Acknowledgements to the broker
		// would say the same again, and it would keep track of every message
		// under way for them.
		AckPolicy:         jetstream.AckNonePolicy,
		MaxWaiting:        16,
		InactiveThreshold: time.Minute,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return fmt.Errorf("create consumer: %w", err)
	}
	s.mu.Lock()
	s.name = name
	s.mu.Unlock()
	if old != "" {
		_ = s.js.DeleteConsumer(ctx, s.cfg.Stream, old) // it ends by itself too
	}
	return s.subscribe(ctx)
}

// subscribe opens a connection of its own for what is asked for.
func (s *Source) subscribe(ctx context.Context) error {
	inbox := s.nc.NewInbox()
	conn, err := wire.Dial(ctx, s.nc, inbox)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.inbox, s.asked, s.askedBytes = conn, inbox, 0, 0
	s.consumer, s.passed = 0, 0
	s.alive, s.broken = time.Now(), nil
	s.ask()
	go s.listen(conn) // until Close
	return nil
}
