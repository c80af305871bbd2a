package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// GroupLag is how far behind the event stream a slot group is.
type GroupLag struct {
	Group         uint32  `json:"group" example:"0"`
	FoldedSeq     uint64  `json:"folded_seq" doc:"Messages of the group up to this sequence are counted" example:"91220"`
	EventsBehind  uint64  `json:"events_behind" doc:"Messages of the group that are not yet counted" example:"0"`
	SecondsBehind float64 `json:"seconds_behind" doc:"For how long the first of them has been in the stream; 0 without one" example:"0"`
}

// LiveLag is the state of the view lag.
type LiveLag struct {
	LastSeq uint64     `json:"last_seq" doc:"Sequence of the newest message in the event stream" example:"91220"`
	Groups  []GroupLag `json:"groups"`
}

// groupPositions tells how far the slot groups are.
type groupPositions interface {
	GroupPositions() []mirror.GroupPosition
}

// lagView returns the view of how far behind the slot groups are.
func lagView(js jetstream.JetStream, positions groupPositions) live.View {
	l := lagging{js, positions}
	return live.Polled(live.View{
		Name: "lag", Summary: "how far behind the event stream each slot group is",
	}, func(ctx context.Context) (LiveLag, error) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		lag, err := l.measure(ctx)
		if err != nil {
			err = live.Unavailable("how far behind the groups are is not known while NATS is away or slow", err)
		}
		return lag, err
	})
}

type lagging struct {
	js        jetstream.JetStream
	positions groupPositions
}

func (l lagging) measure(ctx context.Context) (LiveLag, error) {
	// The positions come first: the stream may only have more.
	positions := l.positions.GroupPositions()
	s, err := l.js.Stream(ctx, stream.Events)
	if err != nil {
		return LiveLag{}, fmt.Errorf("ask for the state of stream %s: %w", stream.Events, err)
	}
	lag := LiveLag{LastSeq: s.CachedInfo().State.LastSeq, Groups: []GroupLag{}}
	for _, p := range positions {
		g := GroupLag{Group: p.ID, FoldedSeq: p.Folded}
		if g.FoldedSeq < lag.LastSeq {
			if err := l.behind(ctx, s, p.Group, &g); err != nil {
				return LiveLag{}, fmt.Errorf("count what is behind slot group %d: %w", p.ID, err)
			}
		}
		lag.Groups = append(lag.Groups, g)
	}
	return lag, nil
}

// behind counts the messages of a group that are not folded. Those behind the
// end of its epoch are other groups'.
func (l lagging) behind(ctx context.Context, s jetstream.Stream, of slots.Group, g *GroupLag) error {
	n, since, err := l.count(ctx, s, of, g.FoldedSeq)
	if err != nil || n == 0 {
		return err
	}
	if of.Upto > 0 {
		beyond, _, err := l.count(ctx, s, of, of.Upto)
		if err != nil {
			return err
		}
		if n -= min(n, beyond); n == 0 {
			return nil
		}
	}
	g.EventsBehind = n
	g.SecondsBehind = math.Round(10*max(0, time.Since(since).Seconds())) / 10 // by two clocks
	return nil
}

// count returns how many messages of a group there are behind a sequence, and when
// the stream received the first.
func (l lagging) count(
	ctx context.Context, s jetstream.Stream, of slots.Group, after uint64,
) (n uint64, first time.Time, err error) {
	state := s.CachedInfo().State
	if of.Of > 1 || state.NumDeleted > 0 {
		return l.countWithConsumer(ctx, s, of, after)
	}
	next := max(after+1, state.FirstSeq)
	if next > state.LastSeq {
		return 0, first, nil
	}
	m, err := s.GetMsg(ctx, next)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // removed meanwhile
		return l.countWithConsumer(ctx, s, of, after)
	}
	if err != nil {
		return 0, first, err
	}
	return state.LastSeq + 1 - next, m.Time, nil
}

// patience is how long the first message of a count may take to come.
const patience = time.Second

// countWithConsumer has the broker count, with a consumer that lives for the count.
func (l lagging) countWithConsumer(
	ctx context.Context, s jetstream.Stream, of slots.Group, after uint64,
) (n uint64, first time.Time, err error) {
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Description: "counts what is behind a slot group", FilterSubjects: of.Subjects(),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
		AckPolicy:   jetstream.AckNonePolicy,
		HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: 5 * patience,
	})
	if err != nil {
		return 0, first, err
	}
	info := c.CachedInfo()
	defer func() { _ = s.DeleteConsumer(context.WithoutCancel(ctx), info.Name) }() // it ends by itself, too
	if info.NumPending == 0 {
		return 0, first, nil
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, first, nil // removed meanwhile
	}
	if err != nil {
		return 0, first, err
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, first, err
	}
	return info.NumPending, meta.Timestamp, nil
}
