package work

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// TestWorkerNames: a name that the server would refuse is refused at once.
func TestWorkerNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "host-7": true, "nats": false, "w\x00": false, "w\n": false, strings.Repeat("w", 201): false,
	} {
		if err := (Config{Worker: name}).withDefaults().check(); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// counter is where moves are judged in place of Postgres.
type counter struct {
	*testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

const testStage = "shard-worker"

// newCounter answers moves by a judge, which is called for one at a time.
func newCounter(t *testing.T, judge func(stream.WorkMove) stream.Verdict) *counter {
	t.Helper()
	s := natstest.Start(t, stream.Config{})
	c := &counter{T: t, nc: s.Connect(), js: s.JetStream()}
	must(t, stream.EnsureWork(t.Context(), c.js, []string{testStage}, stream.WorkConfig{}))
	_, err := c.nc.Subscribe(stream.WorkMoves, func(msg *nats.Msg) {
		b, err := stream.ParseWorkMoves(msg.Data)
		if err != nil {
			t.Error(err)
			return
		}
		var answer stream.WorkVerdicts
		for _, m := range b.Moves {
			v := stream.WorkVerdict{Verdict: judge(m), Generation: m.Generation, Attempts: 1}
			if m.Kind == stream.MoveStart {
				v.Generation++
			}
			answer.Verdicts = append(answer.Verdicts, v)
		}
		data, err := json.Marshal(answer)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	must(t, err)
	return c
}

// hand puts an item on the stream.
func (c *counter) hand(id int64) {
	c.Helper()
	data, err := json.Marshal(stream.WorkItem{ID: id, Filename: "a", Stage: testStage, Generation: 1})
	must(c, err)
	_, err = c.js.Publish(c.Context(), stream.WorkSubject(testStage), data)
	must(c, err)
}

// work runs a worker until the returned function has stopped it.
func (c *counter) work(handler Handler, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, c.nc, testStage, handler, cfg) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(stop)
	return stop
}

// settled waits until no message is left.
func (c *counter) settled() {
	c.Helper()
	for ctx := within(c); ; time.Sleep(5 * time.Millisecond) { // nobody says so
		s, err := c.js.Stream(ctx, stream.Work)
		must(c, err)
		if s.CachedInfo().State.Msgs == 0 {
			return
		}
	}
}

// TestRefusedItem: an item that could not be started, since its stage was full,
// comes again, and what the worker said of it is no answer of one who had it.
func TestRefusedItem(t *testing.T) {
	full := true
	c := newCounter(t, func(m stream.WorkMove) stream.Verdict {
		if m.Kind == stream.MoveStart && full {
			full = false
			return stream.VerdictFull
		}
		return stream.VerdictMade
	})
	worked := make(chan struct{}, 10)
	c.hand(1)
	stop := c.work(func(context.Context, Item) error { worked <- struct{}{}; return nil }, Config{})
	<-worked
	c.settled()
	stop()
	acks, err := c.js.Stream(t.Context(), stream.WorkAcks)
	must(t, err)
	for seq, want := range []stream.WorkAnswerKind{stream.AnswerRefused, stream.AnswerSettled} {
		m, err := acks.GetMsg(t.Context(), uint64(seq+1))
		must(t, err)
		if a, err := stream.ParseWorkAnswer(m.Subject, m.Data); err != nil || a.Kind != want {
			t.Errorf("answer %d is %q: %+v, %v", seq+1, m.Data, a, err)
		}
	}
}

// TestMessageComesAgain: an item whose message comes again while a handler has
// it, since the acknowledgement was lost, is worked once, and not asked for again.
func TestMessageComesAgain(t *testing.T) {
	var starts, ends atomic.Int32
	c := newCounter(t, func(m stream.WorkMove) stream.Verdict {
		if m.Kind == stream.MoveStart {
			starts.Add(1)
		} else {
			ends.Add(1)
		}
		return stream.VerdictMade
	})
	for range 2 {
		c.hand(1)
	}
	begun, end := make(chan struct{}, 10), make(chan struct{})
	stop := c.work(func(context.Context, Item) error { begun <- struct{}{}; <-end; return nil }, Config{})
	<-begun
	c.settled()
	close(end)
	stop()
	if starts.Load() != 1 || ends.Load() != 1 {
		t.Errorf("started %d times, ended %d times", starts.Load(), ends.Load())
	}
}

// TestLostBeforeItsTurn: an item whose lease is over before a handler has it is
// not worked.
func TestLostBeforeItsTurn(t *testing.T) {
	w := newWorker(nil, testStage, func(context.Context, Item) error {
		t.Error("it is worked")
		return nil
	}, Config{}.withDefaults())
	w.handlers = t.Context()
	lost := &task{item: stream.WorkItem{ID: 2}, generation: 2}
	w.held[lost.offer()] = lost
	w.renewed(lost, time.Now(), stream.WorkVerdict{Verdict: stream.VerdictGone}, true)
	if end := w.handle(lost); end.Kind != stream.MoveRelease {
		t.Errorf("it ends by move %d", end.Kind)
	}
}

// TestSilence: while nobody answers, a handler's context ends when its lease
// may be over, and the item is given back.
func TestSilence(t *testing.T) {
	var ends []stream.MoveKind
	quiet := make(chan struct{})
	c := newCounter(t, func(m stream.WorkMove) stream.Verdict {
		switch m.Kind {
		case stream.MoveStart:
		case stream.MoveExtend:
			<-quiet
		default:
			ends = append(ends, m.Kind)
		}
		return stream.VerdictMade
	})
	c.hand(1)
	cause := make(chan error, 1)
	stop := c.work(func(ctx context.Context, _ Item) error {
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return ctx.Err()
	}, Config{Lease: time.Second, Grace: time.Millisecond})
	var why error
	select {
	case why = <-cause:
	case <-within(t).Done():
	}
	if !errors.Is(why, errLost) {
		t.Errorf("the context has ended by %v", why)
	}
	close(quiet)
	stop()
	if !slices.Equal(ends, []stream.MoveKind{stream.MoveRelease}) {
		t.Errorf("ended by %v", ends)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
