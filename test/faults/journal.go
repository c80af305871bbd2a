package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

// journal is what the streams have held by the end.
type journal struct {
	first   map[string]uint64 // by identity: the sequence of its first sighting
	said    map[string]sighting
	holder  map[string]*fact  // what was sighted first
	last    uint64            // sequence at which the stream ends
	facts   map[uint64]*fact  // of the messages that break none, by sequence
	seen    map[string]bool   // identities that are there, valid or not
	invalid map[uint64]string // bodies that break a rule, by sequence
	bodies  map[string]bool
	strange int // messages that nobody sent
	letters map[uint64]int
	at      map[uint64]time.Time // of the messages that break a rule
}

// read reads all events from their copy, and the dead letters. Where these have
// just moved to another server, or are about to, it begins anew.
func (l *ledger) read(ctx context.Context, js jetstream.JetStream, events *tape) (j *journal, err error) {
	err = backoff.Do(ctx, func() (err error) {
		j, err = l.readOnce(ctx, js, events)
		return err
	}, nil)
	return j, err
}

// backoff is how long to wait before a server that may be down is asked again.
var backoff = retry.Backoff{First: 50 * time.Millisecond, Most: 500 * time.Millisecond}

func (l *ledger) readOnce(ctx context.Context, js jetstream.JetStream, events *tape) (*journal, error) {
	j := &journal{
		first: map[string]uint64{}, said: map[string]sighting{}, holder: map[string]*fact{},
		seen: map[string]bool{}, facts: map[uint64]*fact{}, invalid: map[uint64]string{}, bodies: map[string]bool{},
		letters: map[uint64]int{}, at: map[uint64]time.Time{},
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	events.each(func(seq uint64, at time.Time, body string) {
		j.bodies[body], j.last = true, max(j.last, seq)
		n := l.sent[body]
		if n != nil && n.fact != nil {
			j.seen[n.fact.id] = true
			if n.fact.valid(at) {
				j.facts[seq] = n.fact
			}
		}
		switch {
		case n == nil:
			j.strange++
		case n.fact == nil || !n.fact.valid(at): // by the clock of the stream, right or wrong
			j.invalid[seq], j.at[seq] = body, at
			if n.acked {
				j.at[seq] = n.at
			}
		case j.first[n.fact.id] == 0:
			j.first[n.fact.id], j.said[n.fact.id], j.holder[n.fact.id] = seq, sighting{body, at}, n.fact
		case j.holder[n.fact.id].conflicts(n.fact):
			j.invalid[seq], j.at[seq] = body, at
		}
	})
	return j, each(ctx, js, stream.DLQ, func(_ uint64, _ time.Time, m jetstream.Msg) {
		if m.Headers().Get(stream.HeaderStream) != stream.Events {
			return
		}
		seq, _ := strconv.ParseUint(m.Headers().Get(stream.HeaderSeq), 10, 64) // 0 is no message's
		j.letters[seq]++
	})
}

// each calls f for every message of a stream. A part of the cluster that has just
// come back may not answer yet: it tries until ctx ends.
func each(ctx context.Context, js jetstream.JetStream, name string, f func(uint64, time.Time, jetstream.Msg)) error {
	var left, from uint64
	err := backoff.Do(ctx, func() error {
		s, err := js.Stream(ctx, name)
		if err == nil {
			left, from = s.CachedInfo().State.Msgs, s.CachedInfo().State.FirstSeq
		}
		return err
	}, nil)
	for err == nil && left > 0 {
		err = backoff.Do(ctx, func() error {
			n, err := some(ctx, js, name, from, int(min(left, 2000)), func(seq uint64, at time.Time, m jetstream.Msg) {
				f(seq, at, m)
				from = seq + 1
			})
			left -= n
			return err
		}, nil)
	}
	if err != nil {
		return fmt.Errorf("read stream %s: %d messages do not come: %w", name, left, err)
	}
	return nil
}

// some calls f for the next messages of a stream from a sequence on, at most n, and
// returns how many there were.
func some(
	ctx context.Context, js jetstream.JetStream, name string, from uint64, n int,
	f func(uint64, time.Time, jetstream.Msg),
) (had uint64, err error) {
	c, err := js.OrderedConsumer(ctx, name, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		return 0, err
	}
	batch, err := c.Fetch(n, jetstream.FetchMaxWait(10*time.Second))
	if err != nil {
		return 0, err
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return had, err
		}
		f(meta.Sequence.Stream, meta.Timestamp, m)
		had++
	}
	if had == 0 {
		err = errors.Join(errors.New("none in ten seconds"), batch.Error())
	}
	return had, err
}
