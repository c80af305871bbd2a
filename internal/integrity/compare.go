package integrity

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// comparison is of a stream with its note.
type comparison struct {
	st        Stream
	js        jetstream.JetStream
	before    note
	now       info
	restarted bool // the server has started again since the note
}

// wantsDetails tells whether the server has to be asked for the sequences that are
// deleted, and for what it knows to be lost: that costs it more than the numbers.
func (l *comparison) wantsDetails() bool {
	s := l.now.State
	return s.NumDeleted <= detailsLimit &&
		(l.restarted || l.before.Created.IsZero() || !l.st.Volatile && s.NumDeleted != l.before.Deleted || s.LastSeq < l.before.Last)
}

// compare returns what the stream has lost since the note, and the new note.
func (l *comparison) compare(ctx context.Context) (found loss, after note, err error) {
	state := l.now.State
	after = note{
		Created: l.now.Created, First: state.FirstSeq, Last: state.LastSeq, LastTime: state.LastTime,
		Msgs: state.Msgs, Deleted: state.NumDeleted, Holes: l.before.Holes,
	}
	for _, part := range []func(context.Context) (Ranges, error){l.end, l.overwritten, l.front, l.said} {
		lost, err := part(ctx)
		if err != nil {
			return found, after, err
		}
		found.lost = found.lost.Plus(lost)
	}
	lost, holes := l.middle()
	found.lost, after.Holes = found.lost.Plus(lost), holes
	found.remark = l.remark(found.lost)
	return found, after, nil
}

// end returns what is missing at the end, of what was there.
func (l *comparison) end(context.Context) (Ranges, error) {
	first := max(l.now.State.LastSeq+1, l.before.First)
	if first > l.before.Last || l.st.Volatile && l.now.State.Lost == nil {
		return nil, nil
	}
	return Ranges{{first, l.before.Last}}, nil
}

// overwritten returns the sequences that were given a second time, because the
// stream had lost its end before it grew again.
func (l *comparison) overwritten(ctx context.Context) (Ranges, error) {
	state, b := l.now.State, l.before
	if !l.restarted || l.st.Volatile || b.LastTime.IsZero() || b.Last < state.FirstSeq || b.Last > state.LastSeq {
		return nil, nil
	}
	s, err := l.js.Stream(ctx, l.st.Name)
	if err != nil {
		return nil, err
	}
	if m, err := s.GetMsg(ctx, b.Last); err != nil || m.Time.Equal(b.LastTime.Time) {
		return nil, nil // a message that is not there is for the others to name
	}
	first, err := l.firstAfter(ctx, b.LastTime.Time)
	if err != nil || first == 0 || first > b.Last {
		first = b.Last
	}
	return Ranges{{first, b.Last}}, nil
}

// firstAfter returns the sequence of the first message that came after a time.
func (l *comparison) firstAfter(ctx context.Context, at time.Time) (uint64, error) {
	at = at.Add(1)
	c, err := l.js.CreateConsumer(ctx, l.st.Name, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &at, HeadersOnly: true,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.js.DeleteConsumer(ctx, l.st.Name, c.CachedInfo().Name) }() // else it ends by itself
	batch, err := c.FetchNoWait(1)
	if err != nil {
		return 0, err
	}
	m, ok := <-batch.Messages()
	if !ok {
		return 0, batch.Error()
	}
	meta, err := m.Metadata()
	if err != nil {
		return 0, err
	}
	return meta.Sequence.Stream, nil
}

// front returns what is missing at the front, if the server says that it has
// lost something: else it is what age and limits have removed.
func (l *comparison) front(context.Context) (Ranges, error) {
	if first := l.now.State.FirstSeq; l.restarted && l.now.State.Lost != nil && first > l.before.First {
		return Ranges{{max(l.before.First, 1), min(first-1, l.before.Last)}}.from(1), nil
	}
	return nil, nil
}

// said returns what the server says it has lost.
func (l *comparison) said(context.Context) (Ranges, error) {
	first := max(l.before.First, 1)
	if l.before.Created.IsZero() {
		first = l.now.State.FirstSeq
	}
	return l.now.State.lost(first, l.before.Last).Minus(l.before.Holes), nil
}

// middle returns the gaps that are losses, and all gaps there are.
func (l *comparison) middle() (lost, gaps Ranges) {
	s := l.now.State
	if !l.st.Whole {
		return nil, nil
	}
	if s.Deleted == nil && s.NumDeleted > 0 { // not asked for: there are no others
		return nil, l.before.Holes
	}
	gaps = rangesOf(s.Deleted)
	if l.restarted { // else they were deleted by hand, or are among what the server says
		lost = gaps.Minus(l.before.Holes).And(Ranges{{l.before.First, max(l.before.Last, l.before.First)}})
	}
	return lost, gaps
}

// remark says what is lost of which the sequences are not known.
func (l *comparison) remark(lost Ranges) string {
	state, b := l.now.State, l.before
	switch {
	case b.Created.IsZero():
		return ""
	case !b.Created.Equal(l.now.Created.Time):
		return fmt.Sprintf("it was made anew at %s; before, it had messages up to sequence %d, and consumers that "+
			"may begin anew", l.now.Created.UTC().Format(time.RFC3339), b.Last)
	case l.restarted && !l.st.Whole && len(lost) == 0 && l.cut():
		return fmt.Sprintf("the server has cut its end off and may have put back what was deleted: of %d messages from "+
			"sequence %d to %d it has %d from sequence %d on", b.Msgs, b.First, b.Last, state.Msgs, state.FirstSeq)
	}
	return ""
}

// cut tells whether the server has cut off records of a stream from which any message
// may be deleted: the deletions that it had recorded there are undone, or it says so
// and nothing was stored since, or messages are fewer though nobody removed any.
func (l *comparison) cut() bool {
	s, b := l.now.State, l.before
	fewer := s.Msgs < b.Msgs
	switch {
	case l.st.Volatile:
		return s.Lost != nil && fewer
	case s.FirstSeq < b.First:
		return true
	case s.Lost != nil:
		return fewer || s.LastSeq <= b.Last
	}
	return fewer && !l.st.Taken && l.now.Config.MaxAge == 0 && s.LastSeq == b.Last
}
