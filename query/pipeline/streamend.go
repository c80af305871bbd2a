package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/schemas/stream"
)

// stuckAfter is how long a view may be behind the stream without moving
// before the service says that it is not ready.
const stuckAfter = 30 * time.Second

// staleAfter is how long a message may wait to be counted before numbers without
// it are stale. A batch that is under way takes less.
const staleAfter = 3 * time.Second

// StreamPosition tells how current a view is.
type StreamPosition struct {
	LastSeq    uint64     `json:"last_seq" doc:"Sequence of the newest message in the event stream" example:"91220"`
	FoldedSeq  uint64     `json:"folded_seq" doc:"Messages up to this sequence are counted" example:"91220"`
	Behind     uint64     `json:"behind" doc:"Messages that are not yet counted" example:"0"`
	StaleSince *time.Time `json:"stale_since,omitempty" doc:"When the first message that is not counted came, or when the stream last answered; absent while that is less than 3 seconds ago"`
}

// streamEnd knows where the event stream ends.
type streamEnd struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	folded func() uint64
	// durable returns up to which sequence projectors say that they have folded.
	durable func() uint64

	mu     sync.Mutex
	last   uint64
	asked  time.Time
	err    error            // why it could not be asked then
	heard  time.Time        // when it last answered
	stream jetstream.Stream // of that answer
	next   waiting
	// For check: the folded sequence when it last moved, and when that was seen;
	// zero while the view is not behind.
	moved   uint64
	movedAt time.Time
}

// waiting is the first message that is not counted. There is none where seq is 0.
type waiting struct {
	seq   uint64
	since time.Time // when the stream received it
	asked time.Time
}

// position compares a view with the stream. The end of the stream is known to be at
// most maxAge old, unless it cannot be asked for.
func (e *streamEnd) position(ctx context.Context, folded uint64, maxAge time.Duration) StreamPosition {
	last, err := e.end(ctx, maxAge) // the view is worth more than its distance
	last = max(last, folded)
	p := StreamPosition{LastSeq: last, FoldedSeq: folded, Behind: last - folded}
	var since time.Time
	if err != nil {
		since = e.lastHeard()
	} else {
		since = e.waitingSince(ctx, folded, last)
	}
	if !since.IsZero() && time.Since(since) > staleAfter {
		since = since.UTC()
		p.StaleSince = &since
	}
	return p
}

func (e *streamEnd) lastHeard() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard
}

// waitingSince returns when the stream received the first message that is not
// counted; zero where all are. It asks the stream once a second at most. In
// between, the message before may have been counted: then its successor came later.
func (e *streamEnd) waitingSince(ctx context.Context, folded, last uint64) time.Time {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if folded >= last {
		e.next = waiting{since: now, asked: now}
		return time.Time{}
	}
	if e.next.seq == folded+1 || now.Sub(e.next.asked) < time.Second || e.stream == nil {
		return e.next.since
	}
	since := now // of a message that is gone: it has waited since it was missed
	attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if m, err := e.stream.GetMsg(attempt, folded+1); err == nil && m.Time.Before(now) { // by two clocks
		since = m.Time
	}
	e.next = waiting{folded + 1, since, now}
	return since
}

func (e *streamEnd) end(ctx context.Context, maxAge time.Duration) (uint64, error) {
	e.mu.Lock()
	last, asked, err := e.last, e.asked, e.err
	e.mu.Unlock()
	if time.Since(asked) < maxAge {
		return last, err
	}
	if !e.nc.IsConnected() { // a request would wait for the connection
		return last, fmt.Errorf("ask for the state of stream %s: %w", stream.Events, nats.ErrDisconnected)
	}
	attempt, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	now := time.Now()
	s, err := e.js.Stream(attempt, stream.Events)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("ask for the state of stream %s: %w", stream.Events, err)
		if ctx.Err() == nil { // or it is this asker who has gone
			e.asked, e.err = time.Now(), err
		}
		return last, err
	}
	if now.After(e.asked) {
		e.last, e.asked, e.err = s.CachedInfo().State.LastSeq, now, nil
		e.heard, e.stream = now, s
	}
	return e.last, nil
}

// note says how far behind the view is, and for how long what comes next has
// waited.
func (e *streamEnd) note(ctx context.Context) httpapi.Note {
	last, err := e.end(ctx, time.Second)
	if err != nil {
		return httpapi.Note{} // not known, which is not 0
	}
	folded := e.folded()
	behind := max(last, folded) - folded
	n := httpapi.Note{Behind: &behind}
	if behind == 0 {
		return n
	}
	if since := e.waitingSince(ctx, folded, last); !since.IsZero() {
		n.BehindSeconds = max(0, time.Since(since).Seconds())
	}
	return n
}

// standsStill tells whether the view was behind and had not moved for long when it was last
// checked, or whether that could not be found out.
func (e *streamEnd) standsStill() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err != nil || !e.movedAt.IsZero() && time.Since(e.movedAt) > stuckAfter
}

// check fails when the view is behind and does not move: then no projector is at work, or this
// process does not get what they fold. One that catches up is no failure.
func (e *streamEnd) check(ctx context.Context) error {
	last, err := e.end(ctx, 0)
	if err != nil {
		return err
	}
	folded := e.folded()
	e.mu.Lock()
	defer e.mu.Unlock()
	if folded >= last {
		e.movedAt = time.Time{} // what comes next has waited for no time yet
		return nil
	}
	if folded != e.moved || e.movedAt.IsZero() {
		e.moved, e.movedAt = folded, time.Now()
		return nil
	}
	since := time.Since(e.movedAt)
	if since <= stuckAfter {
		return nil
	}
	why := "no projector folds"
	if durable := e.durable(); durable > folded {
		why = fmt.Sprintf("projectors have folded %d of them, which this process cannot read", durable-folded)
	}
	return fmt.Errorf("the funnel is behind by %d messages and has not moved for %s: %s",
		last-folded, since.Round(time.Second), why)
}
