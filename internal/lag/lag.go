// Package lag measures how far slot groups are behind the end of the event stream. It asks
// the stream and the checkpoints, so that a group's lag grows while nobody folds it.
package lag

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Position is how far a slot group is.
type Position struct {
	slots.Group
	Folded uint64 // stream sequence up to which its events are counted
}

// Behind is how far a slot group is behind the stream.
type Behind struct {
	Position
	Events uint64        // messages of the group that are not counted
	Age    time.Duration // how long the first of them has been in the stream; 0 without one
}

// Measure returns how far groups are behind, and the state of the stream that they were
// compared with. The positions have to be older than the call: the stream may only have
// more. Ages are by the server's clock alone.
func Measure(
	ctx context.Context, js jetstream.JetStream, positions []Position,
) (*jetstream.StreamInfo, []Behind, error) {
	s, err := js.Stream(ctx, stream.Events)
	if err != nil {
		return nil, nil, fmt.Errorf("ask for the state of stream %s: %w", stream.Events, err)
	}
	all := make([]Behind, len(positions))
	for i, p := range positions {
		all[i].Position = p
		if p.Folded >= s.CachedInfo().State.LastSeq {
			continue
		}
		if err := all[i].measure(ctx, s); err != nil {
			return nil, nil, fmt.Errorf("count what is behind slot group %d: %w", p.ID, err)
		}
	}
	return s.CachedInfo(), all, nil
}

// measure counts the messages of the group that are not folded. Those behind the end of
// its epoch are other groups'.
func (b *Behind) measure(ctx context.Context, s jetstream.Stream) error {
	n, age, err := count(ctx, s, b.Group, b.Folded)
	if err != nil || n == 0 {
		return err
	}
	if b.Upto > 0 {
		beyond, _, err := count(ctx, s, b.Group, b.Upto)
		if err != nil {
			return err
		}
		if n -= min(n, beyond); n == 0 {
			return nil
		}
	}
	b.Events, b.Age = n, max(0, age)
	return nil
}

// count returns how many messages of a group there are behind a sequence, and how long the
// first has been there.
func count(
	ctx context.Context, s jetstream.Stream, of slots.Group, after uint64,
) (n uint64, age time.Duration, err error) {
	info := s.CachedInfo()
	if of.Of > 1 || info.State.NumDeleted > 0 {
		return countWithConsumer(ctx, s, of, after)
	}
	next := max(after+1, info.State.FirstSeq)
	if next > info.State.LastSeq {
		return 0, 0, nil
	}
	m, err := s.GetMsg(ctx, next)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // removed meanwhile
		return countWithConsumer(ctx, s, of, after)
	}
	if err != nil {
		return 0, 0, err
	}
	return info.State.LastSeq + 1 - next, info.TimeStamp.Sub(m.Time), nil
}

// patience is how long the first message of a count may take to come.
const patience = time.Second

// countWithConsumer has the broker count, with a consumer that lives for the count.
func countWithConsumer(
	ctx context.Context, s jetstream.Stream, of slots.Group, after uint64,
) (n uint64, age time.Duration, err error) {
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "counts what is behind a slot group", FilterSubjects: of.Subjects(),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		AckPolicy:   jetstream.AckNonePolicy,
		HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: 5 * patience,
	})
	if err != nil {
		return 0, 0, err
	}
	info := c.CachedInfo()
	defer func() { _ = s.DeleteConsumer(context.WithoutCancel(ctx), info.Name) }() // it ends by itself, too
	if info.NumPending == 0 {
		return 0, 0, nil
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, 0, nil // removed meanwhile
	}
	if err != nil {
		return 0, 0, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, 0, err
	}
	return info.NumPending, info.TimeStamp.Sub(meta.Timestamp), nil
}
