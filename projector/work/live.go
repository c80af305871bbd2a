package work

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// liveSet is what a stream holds.
type liveSet struct {
	first, last uint64
	seqs        []uint64
	at          time.Time // by the server's clock
}

// live returns what the work stream holds.
func (t *session) live(ctx context.Context) (*liveSet, error) {
	s, err := t.js.Stream(ctx, stream.Work)
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", stream.Work, err)
	}
	info, err := s.Info(ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", stream.Work, err)
	}
	l := &liveSet{first: info.State.FirstSeq, last: info.State.LastSeq, at: info.TimeStamp}
	// One message that stays at the head can have millions missing behind it.
	gone := info.State.Deleted
	slices.Sort(gone)
	for seq := max(l.first, 1); seq <= l.last; seq++ {
		for len(gone) > 0 && gone[0] < seq {
			gone = gone[1:]
		}
		if len(gone) == 0 || gone[0] != seq {
			l.seqs = append(l.seqs, seq)
		}
	}
	return l, nil
}
