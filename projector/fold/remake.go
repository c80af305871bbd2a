package fold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/millrace-io/millrace/internal/retry"
)

// ErrShorter means that the stream has lost messages that were read. The messages
// that are published next get their sequences, and a consumer that starts behind
// those would not deliver them.
var ErrShorter = errors.New("the stream has lost messages that were read of it")

// leaderLag is how long a stream may seem to end before what was read of it: a
// leader that has just been elected may have to catch up. Tests need less.
var leaderLag = 15 * time.Second

// reopenBackoff is how long to wait before a consumer is made again.
var reopenBackoff = retry.Backoff{First: 50 * time.Millisecond, Most: 2 * time.Second}

// check makes the consumer again when it is broken, for as long as it takes,
// unless the stream is ErrShorter.
func (s *reader) check(ctx context.Context) error {
	reason := s.reason()
	if reason == nil {
		return nil
	}
	log, begin := s.log.With("stream", s.cfg.Stream, "consumer", s.cfg.Consumer, "reason", reason), time.Now()
	err := reopenBackoff.Do(ctx, func() error {
		err := s.remake(ctx)
		if errors.Is(err, ErrShorter) && time.Since(begin) > leaderLag {
			return retry.Stop(err)
		}
		return err
	}, retry.WarnWait(log, "consumer can't be made"))
	if err == nil && !errors.Is(reason, errNew) {
		log.Info("consumer made again")
	}
	return err
}

// reason says why the consumer can't be trusted, or nil.
func (s *reader) reason() error {
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
func (s *reader) remake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.Close()
	s.mu.Lock()
	last, known := s.last, s.known
	s.mu.Unlock()
	if err := s.verify(ctx, last, known); err != nil {
		return err
	}

	// The name is new each time: a projector that was replaced, and does not know
	// it yet, cannot delete this consumer.
	old, name := s.name, s.cfg.Consumer+"-"+nuid.Next()
	made, err := s.js.CreateConsumer(ctx, s.cfg.Stream, jetstream.ConsumerConfig{
		Name:           name,
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    last + 1,
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
	s.name, s.pending, s.idle = name, made.CachedInfo().NumPending, 0
	s.mu.Unlock()
	if old != "" {
		_ = s.js.DeleteConsumer(ctx, s.cfg.Stream, old) // it ends by itself too
	}
	return s.subscribe()
}

// verify returns ErrShorter if the stream ends before the last message received, or
// has another message than a known one at its sequence. That the stream has removed the
// message is fine.
func (s *reader) verify(ctx context.Context, last uint64, known Known) error {
	str, err := s.js.Stream(ctx, s.cfg.Stream)
	if err != nil {
		return fmt.Errorf("read stream %s: %w", s.cfg.Stream, err)
	}
	if end := str.CachedInfo().State.LastSeq; end < last {
		return fmt.Errorf("%w: %s ends at sequence %d, and was read up to %d", ErrShorter, s.cfg.Stream, end, last)
	}
	if known.Seq == 0 {
		return nil
	}
	at, err := received(ctx, s.js, str, known.Seq)
	if err == nil && known.other(at) {
		err = fmt.Errorf("%w: %s has another one at sequence %d", ErrShorter, s.cfg.Stream, known.Seq)
	}
	return err
}

// subscribe listens to what is asked for.
func (s *reader) subscribe() error {
	inbox := s.nc.NewInbox()
	sub, err := s.nc.Subscribe(inbox, s.receive)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // what is asked for is bounded
	}
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", inbox, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sub, s.inbox, s.asked, s.askedBytes = sub, inbox, 0, 0
	s.consumer, s.passed, s.closed = 0, 0, make(chan struct{})
	s.alive, s.broken = time.Now(), nil
	s.ask()
	go s.watch(sub, s.closed) // until Close
	return nil
}

// watch notices that the connection is lost: the server forgets requests then.
func (s *reader) watch(sub *nats.Subscription, closed <-chan struct{}) {
	lost := s.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer s.nc.RemoveStatusListener(lost)
	select {
	case <-closed:
	case <-lost:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.sub == sub {
			s.fail(errDisconnected)
		}
	}
}
