package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
func (t *term) live(ctx context.Context) (*liveSet, error) {
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

// onStream tells whether a message is on the work stream.
func onStream(ctx context.Context, js jetstream.JetStream, seq uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	st, err := js.Stream(ctx, stream.Work)
	if err == nil {
		_, err = st.GetMsg(ctx, seq)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, fmt.Errorf("look for message %d of %s: %w", seq, stream.Work, err)
	}
	return err == nil, nil
}

// remove takes a message off the work stream. One that is gone is fine.
func remove(ctx context.Context, js jetstream.JetStream, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	st, err := js.Stream(ctx, stream.Work)
	if err == nil {
		err = st.DeleteMsg(ctx, seq)
	}
	if err != nil && !absentFrom(err) {
		return fmt.Errorf("remove message %d of %s: %w", seq, stream.Work, err)
	}
	return nil
}

// absentFrom tells whether a message could not be removed because it had been.
// The library keeps the text of the server's answer alone. One that lies beyond
// the end of the stream may still come, and is not meant.
func absentFrom(err error) bool {
	if !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return errors.Is(err, jetstream.ErrMsgNotFound)
	}
	text := err.Error()
	return slices.ContainsFunc([]string{"err_code=10043", "no message found", "deleted message"}, func(s string) bool { return strings.Contains(text, s) })
}
