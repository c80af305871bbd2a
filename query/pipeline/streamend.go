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

// StreamPosition tells how current a view is.
type StreamPosition struct {
	LastSeq   uint64 `json:"last_seq" doc:"Sequence of the newest message in the event stream" example:"91220"`
	FoldedSeq uint64 `json:"folded_seq" doc:"Messages up to this sequence are counted" example:"91220"`
	Behind    uint64 `json:"behind" doc:"Messages that are not yet counted" example:"0"`
}

// streamEnd knows where the event stream ends.
type streamEnd struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	folded func() uint64

	mu    sync.Mutex
	last  uint64
	asked time.Time
	err   error // why it could not be asked then
	// For check: the folded sequence when it last moved, and when that was seen;
	// zero while the view is not behind.
	moved   uint64
	movedAt time.Time
}

// position compares a view with the stream. The end of the stream is known to be at
// most maxAge old, unless it cannot be asked for.
func (e *streamEnd) position(ctx context.Context, folded uint64, maxAge time.Duration) StreamPosition {
	last, _ := e.end(ctx, maxAge) // the view is worth more than its distance
	last = max(last, folded)
	return StreamPosition{LastSeq: last, FoldedSeq: folded, Behind: last - folded}
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
	s, err := e.js.Stream(ctx, stream.Events)
	if err != nil {
		return n
	}
	// The next message may be of no stage, or gone.
	if m, err := s.GetMsg(ctx, folded+1); err == nil {
		n.BehindSeconds = max(0, time.Since(m.Time).Seconds()) // by two clocks
	}
	return n
}

// check fails when the view is behind and does not move: then no projector is
// at work. One that catches up is no failure.
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
	if since := time.Since(e.movedAt); since > stuckAfter {
		return fmt.Errorf("the funnel is behind by %d messages and has not moved for %s: no projector is at work",
			last-folded, since.Round(time.Second))
	}
	return nil
}
