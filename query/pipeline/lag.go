package pipeline

import (
	"context"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/query/live"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
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
	}, "how far behind the groups are is not known while NATS is away or slow", l.measure)
}

type lagging struct {
	js        jetstream.JetStream
	positions groupPositions
}

func (l lagging) measure(ctx context.Context) (LiveLag, error) {
	info, all, err := lag.Measure(ctx, l.js, l.positions.GroupPositions())
	if err != nil {
		return LiveLag{}, err
	}
	state := LiveLag{LastSeq: info.State.LastSeq, Groups: []GroupLag{}}
	for _, b := range all {
		state.Groups = append(state.Groups, GroupLag{
			Group: b.ID, FoldedSeq: b.Folded, EventsBehind: b.Events, SecondsBehind: math.Round(10*b.Age.Seconds()) / 10,
		})
	}
	return state, nil
}
