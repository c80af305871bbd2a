package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/schemas/stream"
)

// eventsAge is how long the stream keeps what is folded: short, so that events
// are removed all the time.
const eventsAge = 20 * time.Second

// maxAge is how long the stream keeps what is folded.
func (c config) maxAge() time.Duration {
	if c.soak {
		return soakAge
	}
	return eventsAge
}

// tape is a copy of the event stream that keeps what is removed from it. A
// mirror within the broker would do for that if it kept up: it may pause for
// longer than the stream keeps events when its node dies or its disk is full,
// and for as long as the broker's clock is set back. This one asks any replica,
// over connections that no fault cuts.
type tape struct {
	js    jetstream.JetStream
	nodes []*nats.Conn // one to each

	mu       sync.Mutex
	messages []taped // by sequence, from 1 on
	refused  int     // answers in a row that passed the next one over
	lost     []string
}

// taped is a message; the zero value stands for one that was removed unread.
type taped struct {
	body string
	at   time.Time // when the stream received it, by its clock
}

const (
	tapeEvery = 20 * time.Millisecond
	tapeBatch = 1000
	// tapeWait is how long a node may take to answer: it may stall.
	tapeWait = 500 * time.Millisecond
	// tapeTries is how many answers have to agree that a message is gone: a
	// replica that has just been restored may lack what others have.
	tapeTries = 30
)

// newTape connects to each node.
func newTape(js jetstream.JetStream, urls []string) (*tape, error) {
	t := &tape{js: js}
	for _, url := range urls {
		nc, err := connect(url)
		if err != nil {
			t.close()
			return nil, err
		}
		t.nodes = append(t.nodes, nc)
	}
	return t, nil
}

// close ends the connections, if there are any.
func (t *tape) close() {
	if t == nil {
		return
	}
	for _, nc := range t.nodes {
		nc.Close()
	}
}

// run copies until ctx ends.
func (t *tape) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		n, _ := read(ctx, t.nodes[i%len(t.nodes)], t.next(), t.take) // another one, or the next attempt, may do
		if n < tapeBatch {
			wait(ctx, tapeEvery)
		}
	}
}

// read has messages taken that a node has from a sequence on, in their order,
// for as long as they are, and returns how many were.
func read(ctx context.Context, nc *nats.Conn, from uint64, take func(uint64, taped) bool) (n int, err error) {
	sub, err := nc.SubscribeSync(nats.NewInbox())
	if err != nil {
		return 0, err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest("$JS.API.DIRECT.GET."+stream.Events, sub.Subject,
		fmt.Appendf(nil, `{"seq":%d,"batch":%d}`, from, tapeBatch)); err != nil {
		return 0, err
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, tapeWait)
		m, err := sub.NextMsgWithContext(attempt)
		cancel()
		if err != nil {
			return n, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404": // the end of the answer, or nothing to answer with
			return n, nil
		default:
			return n, fmt.Errorf("read stream %s: status %s", stream.Events, status)
		}
		seq, err1 := strconv.ParseUint(m.Header.Get(nats.JSSequence), 10, 64)
		at, err2 := time.Parse(time.RFC3339Nano, m.Header.Get(nats.JSTimeStamp))
		if err := errors.Join(err1, err2); err != nil {
			return n, fmt.Errorf("read stream %s: %w", stream.Events, err)
		}
		if !take(seq, taped{string(m.Data), at}) {
			return n, nil
		}
		n++
	}
}

// next is the first sequence that is not copied.
func (t *tape) next() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return uint64(len(t.messages)) + 1
}

// take copies the next message. One beyond it is not taken, unless it is sure
// that there is none between.
func (t *tape) take(seq uint64, m taped) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := uint64(len(t.messages)) + 1
	if seq > next {
		if t.refused++; t.refused < tapeTries {
			return false
		}
		t.lost = append(t.lost,
			fmt.Sprintf(
				"messages %d to %d left the stream before they could be read: what became of them can't be told",
				next, seq-1,
			))
		t.messages = append(t.messages, make([]taped, seq-next)...)
	}
	t.refused = 0
	t.messages = append(t.messages, m)
	return true
}

// each calls f for every message that was copied.
func (t *tape) each(f func(seq uint64, at time.Time, body string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, m := range t.messages {
		if !m.at.IsZero() {
			f(uint64(i)+1, m.at, m.body)
		}
	}
}

// level waits until all is copied that the stream has now.
func (t *tape) level(ctx context.Context) error {
	last, err := uint64(0), errors.New("no answer")
	for ; err != nil; wait(ctx, tapeEvery) {
		if ctx.Err() != nil {
			return fmt.Errorf("read the end of stream %s: %w", stream.Events, err)
		}
		last, _, err = t.state(ctx)
	}
	for t.next() <= last {
		if ctx.Err() != nil {
			return fmt.Errorf("stream %s ends at %d, and %d can't be read from it", stream.Events, last, t.next())
		}
		wait(ctx, tapeEvery)
	}
	return nil
}

// state returns where the stream ends, and where it begins.
func (t *tape) state(ctx context.Context) (last, first uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s, err := t.js.Stream(ctx, stream.Events)
	if err != nil {
		return 0, 0, err
	}
	return s.CachedInfo().State.LastSeq, s.CachedInfo().State.FirstSeq, nil
}

// verify waits until everything is copied, and says what is wrong with the
// stream: what was read from it must not have changed, nor be beyond its end.
func (t *tape) verify(ctx context.Context) (wrong []string) {
	if err := t.level(ctx); err != nil {
		return []string{err.Error()}
	}
	last, first, err := t.state(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	if end := t.next() - 1; end > last {
		wrong = append(wrong, fmt.Sprintf("stream %s ends at %d, and had messages up to %d", stream.Events, last, end))
	}
	changed := 0
	for _, nc := range t.nodes {
		for from, more := first, true; more; {
			n, err := read(ctx, nc, from, func(seq uint64, m taped) bool {
				changed += btoi(!t.has(seq, m))
				from = seq + 1
				return true
			})
			if ctx.Err() != nil {
				return append(wrong, fmt.Sprintf("read stream %s: %v", stream.Events, err))
			}
			if more = n > 0 || err != nil; err != nil {
				wait(ctx, tapeEvery)
			}
		}
	}
	if changed > 0 {
		wrong = append(wrong, fmt.Sprintf("%d messages of stream %s are not what they were", changed, stream.Events))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(wrong, t.lost...)
}

// has tells whether a message is the one that was copied.
func (t *tape) has(seq uint64, m taped) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if seq > uint64(len(t.messages)) {
		return false
	}
	was := t.messages[seq-1]
	return was.body == m.body && was.at.Equal(m.at)
}

// aged waits until the first message is removed, if it is old enough for that
// while all clocks are right.
func (t *tape) aged(ctx context.Context) error {
	t.mu.Lock()
	old := len(t.messages) > 0 && time.Since(t.messages[0].at) > 2*eventsAge
	t.mu.Unlock()
	for first := uint64(1); old && first <= 1; wait(ctx, tapeEvery) {
		if ctx.Err() != nil {
			return fmt.Errorf("stream %s keeps events that are older than %s and folded", stream.Events, eventsAge)
		}
		if _, now, err := t.state(ctx); err == nil {
			first = now
		}
	}
	return nil
}
