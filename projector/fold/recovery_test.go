package fold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/slowtest"
	"github.com/millrace-io/millrace/schemas/stream"
)

// table is a sink in memory, and the view on it. It holds that a message is
// always written by the same batch.
type table struct {
	t         *testing.T
	*contents           // of one table, which several sessions may write
	only      string    // the subject of its messages; "": all are
	open      []Message // of the open batch
	// What a session waits for in Open, Write and Announce; nil: nothing.
	opens             func(context.Context) error
	writes, announces func()
}

type contents struct {
	mu     sync.Mutex
	rows   map[uint64]string // by sequence
	cuts   map[uint64]Cut    // by which each was written first
	stored Stored
}

func newTable(t *testing.T) *table {
	return &table{t: t, contents: &contents{rows: map[uint64]string{}, cuts: map[uint64]Cut{}}}
}

type part struct {
	cut  Cut
	rows []Message
}

func (a *table) Stored(context.Context) (Stored, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored, nil
}

func (a *table) Open(ctx context.Context, _ uint64) (View[part], error) {
	if a.opens != nil {
		if err := a.opens(ctx); err != nil {
			return nil, err
		}
	}
	a.open = nil
	return a, nil
}

func (a *table) Failing() bool { return false }

func (a *table) Take(m Message) bool {
	if a.only == "" || a.only == string(m.Subject) {
		a.open = append(a.open, m)
	}
	return false
}

func (a *table) Seal(_ context.Context, cut Cut) (part, string, error) {
	p := part{cut, a.open}
	a.open = nil
	return p, fmt.Sprint(len(p.rows)), nil
}

func (a *table) Write(_ context.Context, p part) error {
	if a.writes != nil {
		a.writes()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p.cut.Recovered = false
	for _, m := range p.rows {
		if before, ok := a.cuts[m.Seq]; ok && before != p.cut {
			a.t.Errorf("message %d is written by the batches %+v and %+v", m.Seq, before, p.cut)
		}
		a.rows[m.Seq], a.cuts[m.Seq] = string(m.Data), p.cut
		a.stored.Seq, a.stored.Received = m.Seq, time.Unix(0, m.Time)
	}
	a.stored.Upto = max(a.stored.Upto, p.cut.To)
	return nil
}

func (a *table) Announce(context.Context, part, time.Duration) {
	if a.announces != nil {
		a.announces()
	}
}

// has tells whether the messages of the sequences (from, to] are there, and
// which others are.
func (a *table) has(from, to uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for seq := from + 1; seq <= to; seq++ {
		if a.rows[seq] == "" {
			return false
		}
	}
	return true
}

// position is a lease that may go back, and is in nobody's way.
type position struct{ from, to uint64 }

func (p *position) Position() (from, to uint64) { return p.from, p.to }

func (p *position) Decide(_ context.Context, from, to uint64, _ string) error {
	p.from, p.to = from, to
	return nil
}

func (p *position) Done(_ context.Context, at, _ uint64) error {
	p.from, p.to = at, at
	return nil
}

func (p *position) Renew(context.Context) error { return nil }

func (p *position) Release(context.Context) error { return nil }

// site is a stream and a lease, to which sessions come one after the other.
type site struct {
	own   *position // in place of a checkpoint
	t     *testing.T
	nc    *nats.Conn
	js    jetstream.JetStream
	kv    jetstream.KeyValue
	table *table
	cfg   Config
	only  []string     // subjects that are read; nil: all
	lag   lag          // of the server that says how far the stream is
	log   slog.Handler // nil: nobody reads it
}

// lag is a server that has caught up after it was asked some times. Until then its
// stream ends at a sequence.
type lag struct {
	looks int
	last  uint64
}

// lagging is JetStream as such a server answers.
type lagging struct {
	jetstream.JetStream
	*lag
}

func (l lagging) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := l.JetStream.Stream(ctx, name)
	if l.looks == 0 || err != nil {
		return s, err
	}
	l.looks--
	return shorter{s, l.last}, nil
}

type shorter struct {
	jetstream.Stream
	last uint64
}

func (s shorter) CachedInfo() *jetstream.StreamInfo {
	info := *s.Stream.CachedInfo()
	info.State.LastSeq = s.last
	return &info
}

func newSite(t *testing.T) *site {
	srv := natstest.Start(t, stream.Config{})
	nc := srv.Connect()
	js, err := jetstream.New(nc)
	must(t, err)
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	must(t, err)
	return &site{t: t, nc: nc, js: js, kv: kv, table: newTable(t), cfg: Config{
		BatchMessages: 7, MinInterval: time.Millisecond, LeaderLag: time.Nanosecond,
	}}
}

func (s *site) publish(n int) { s.publishTo("events.crawled.00", n) }

func (s *site) publishTo(subject string, n int) {
	s.t.Helper()
	for range n {
		_, err := s.js.Publish(s.t.Context(), subject, []byte("x"))
		must(s.t, err)
	}
}

func (s *site) lease() *LeaseLog[struct{}] {
	s.t.Helper()
	l, err := OpenLog[struct{}](s.t.Context(), s.kv, "group", "me", 0)
	must(s.t, err)
	return l
}

// take takes the lease. What a session that was killed has sent last may still
// come in between.
func (s *site) take() *LeaseLog[struct{}] {
	s.t.Helper()
	for {
		l := s.lease()
		if err := l.Take(s.t.Context()); !errors.Is(err, ErrLost) {
			must(s.t, err)
			return l
		}
	}
}

func (s *site) events() jetstream.Stream {
	s.t.Helper()
	st, err := s.js.Stream(s.t.Context(), stream.Events)
	must(s.t, err)
	return st
}

func (s *site) fold(lease Lease, sink *table) *Fold[part] {
	s.t.Helper()
	handler := s.log
	if handler == nil {
		handler = slog.DiscardHandler
	}
	log := slog.New(handler)
	in := NewStream(StreamConfig{Stream: stream.Events, Consumer: "test", Subjects: s.only}, s.nc,
		lagging{s.js, &s.lag}, log)
	f, err := New(s.cfg, Deps{Input: in, Lease: lease, Log: log}, sink)
	must(s.t, err)
	return f
}

// session folds until done says so, or it ends by itself.
func (s *site) session(watch func(State, Event, State) error, done func() bool) error {
	s.t.Helper()
	lease := Lease(s.own)
	if s.own == nil {
		lease = s.take()
	}
	f := s.fold(lease, s.table)
	f.machine.watch = watch
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
			if done() {
				cancel()
				err := <-ended
				if !errors.Is(err, context.Canceled) {
					return err
				}
				return nil
			}
		}
	}
}

// path is a way through the states, and what leads there.
type path struct {
	name    string
	prepare func(*site)
	want    string
	has     Cut    // what the table has in the end
	refused string // why the session ends
}

var paths = []path{
	{
		name:    "anew",
		prepare: func(s *site) { s.publish(20) },
		want:    "asking comparing opening folding", has: Cut{To: 20},
	},
	{
		name: "a decided batch",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 11)
		},
		want: "asking comparing opening completing folding", has: Cut{To: 20},
	},
	{
		name: "a decided batch whose last message was deleted",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 11)
			must(s.t, s.events().DeleteMsg(s.t.Context(), 11))
			must(s.t, s.events().DeleteMsg(s.t.Context(), 10))
		},
		want: "asking comparing opening completing folding", has: Cut{To: 9},
	},
	{
		name: "a decided batch of a part of the stream, whose last message was deleted",
		prepare: func(s *site) {
			s.table.only = "events.crawled.00"
			s.only = []string{s.table.only}
			s.publish(9)
			s.publishTo("events.crawled.01", 1)
			s.publish(1)
			s.decide(0, 11)
			must(s.t, s.events().DeleteMsg(s.t.Context(), 11))
		},
		want: "asking comparing opening completing folding", has: Cut{To: 9},
	},
	{
		name: "a decided batch that the stream has dropped",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 11)
			must(s.t, s.events().Purge(s.t.Context(), jetstream.WithPurgeSequence(12)))
		},
		want: "asking comparing skipping comparing opening folding", has: Cut{From: 11, To: 20},
	},
	{
		name: "a stream that was moved on",
		prepare: func(s *site) {
			s.table.stored = Stored{Upto: 30}
			s.publish(20)
			must(s.t, s.events().Purge(s.t.Context(), jetstream.WithPurgeSequence(31)))
			s.publish(5)
		},
		want: "asking comparing adopting opening folding", has: Cut{From: 30, To: 35},
	},
	{
		name: "a stream made anew",
		prepare: func(s *site) {
			s.cfg.Rewind, s.own = true, &position{50, 50}
			s.publish(20)
		},
		want: "asking comparing rewinding opening folding", has: Cut{To: 20},
	},
	{
		name: "a stream made anew that has grown beyond the position",
		prepare: func(s *site) {
			s.cfg.Rewind, s.own = true, &position{10, 10}
			s.table.stored = Stored{Known: Known{9, time.Unix(1, 0)}}
			s.publish(20)
		},
		want: "asking comparing rewinding opening folding", has: Cut{To: 20},
	},
	{
		name: "a stream whose server catches up",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 11)
			s.cfg.LeaderLag, s.lag = time.Minute, lag{looks: 1, last: 5}
		},
		want: "asking comparing opening completing folding", has: Cut{To: 20},
	},
	{
		name: "a stream that may be made anew, whose server catches up",
		prepare: func(s *site) {
			s.publish(20)
			s.cfg.Rewind, s.own = true, &position{15, 15}
			s.cfg.LeaderLag, s.lag = time.Minute, lag{looks: 2, last: 5}
		},
		want: "asking comparing opening folding", has: Cut{From: 15, To: 20},
	},
	{
		name: "a shorter stream",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 30)
		},
		want: "asking comparing refused", refused: "the stream ends at sequence 20",
	},
	{
		name: "a stream with another message",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 10)
			s.table.stored = Stored{Upto: 10, Known: Known{9, time.Unix(1, 0)}}
		},
		want: "asking comparing refused", refused: "has at sequence 9 a message of",
	},
	{
		name: "a checkpoint that is behind",
		prepare: func(s *site) {
			s.publish(20)
			s.table.stored = Stored{Upto: 10}
		},
		want: "asking comparing refused", refused: "the checkpoint knows of batches up to sequence 0 only",
	},
	{
		name: "a last sequence",
		prepare: func(s *site) {
			s.publish(20)
			s.cfg.Upto = 16
		},
		want: "asking comparing opening folding ending ended", has: Cut{To: 16},
	},
	{
		name: "a decided batch before a last sequence",
		prepare: func(s *site) {
			s.publish(20)
			s.decide(0, 3)
			s.cfg.Upto = 16
			must(s.t, s.events().DeleteMsg(s.t.Context(), 16))
		},
		want: "asking comparing opening completing folding ending ended", has: Cut{To: 15},
	},
}

// decide leaves the lease as an owner that is killed in the middle of a batch.
func (s *site) decide(from, to uint64) {
	s.t.Helper()
	l := s.lease()
	must(s.t, l.Take(s.t.Context()))
	must(s.t, l.Decide(s.t.Context(), from, to, "1"))
}

// TestRecovery takes every transition of the table, and holds that each path
// leads to the effects that it has to have.
func TestRecovery(t *testing.T) {
	slowtest.Mark(t)
	taken := map[State]map[Event]bool{}
	for _, p := range paths {
		t.Run(p.name, func(t *testing.T) {
			s := newSite(t)
			p.prepare(s)
			path := []string{Asking.String()}
			err := s.session(func(from State, e Event, to State) error {
				if taken[from] == nil {
					taken[from] = map[Event]bool{}
				}
				taken[from][e] = true
				path = append(path, to.String())
				return nil
			}, func() bool { return s.cfg.Upto == 0 && s.table.has(p.has.From, p.has.To) && p.refused == "" })
			if got := strings.Join(path, " "); got != p.want {
				t.Errorf("the path is\n%s, want\n%s", got, p.want)
			}
			p.check(t, s, err)
		})
	}
	for from, row := range transitions {
		for e := range row {
			if !taken[State(from)][e] {
				t.Errorf("no path has %s while %s", e, State(from))
			}
		}
	}
}

// check holds what a path leaves behind.
func (p *path) check(t *testing.T, s *site, err error) {
	t.Helper()
	var stop *Stop
	switch {
	case p.refused != "":
		if !errors.As(err, &stop) || !strings.Contains(err.Error(), p.refused) {
			t.Errorf("the session ends with %v, want %s", err, p.refused)
		}
		if len(s.table.rows) > 0 {
			t.Errorf("%d messages are folded", len(s.table.rows))
		}
	case err != nil:
		t.Error(err)
	case !s.table.has(p.has.From, p.has.To):
		t.Errorf("messages are missing of %+v: %v", p.has, s.table.rows)
	}
	if upto := s.cfg.Upto; upto > 0 {
		if from, to := s.lease().Position(); from != upto || to != upto || s.table.rows[upto+1] != "" {
			t.Errorf("the fold ends at (%d, %d], with %q behind", from, to, s.table.rows[upto+1])
		}
	}
}

// TestCrashInEveryState kills a session before each of its transitions, and
// holds that the next one has the same effects as if there had been no other,
// by the same batches.
func TestCrashInEveryState(t *testing.T) {
	killed := errors.New("killed")
	type crash struct {
		path
		at int
	}
	var crashes []crash
	for _, p := range paths {
		for at := range strings.Count(p.want, " ") {
			crashes = append(crashes, crash{p, at})
		}
	}
	for _, c := range slowtest.Sample(crashes, 25) {
		t.Run(fmt.Sprintf("%s, before step %d", c.name, c.at), func(t *testing.T) {
			s := newSite(t)
			c.prepare(s)
			done := func() bool { return s.cfg.Upto == 0 && s.table.has(c.has.From, c.has.To) && c.refused == "" }
			step := 0
			err := s.session(func(State, Event, State) error {
				if step++; step > c.at {
					return killed
				}
				return nil
			}, done)
			if !errors.Is(err, killed) {
				t.Fatalf("the first session ends with %v", err)
			}
			c.check(t, s, s.session(nil, done))
		})
	}
}

// TestReplaced: a session that stalls in the middle of a batch is replaced.
// When it goes on, it writes that batch at most, with the bounds that were decided,
// and ends without having moved the position.
func TestReplaced(t *testing.T) {
	for name, stop := range map[string]func(*table, func()){
		"while it writes":    func(a *table, stand func()) { a.writes = stand },
		"while it announces": func(a *table, stand func()) { a.announces = stand },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.cfg.Lease = 300 * time.Millisecond
			s.publish(20)
			stands, goOn := make(chan struct{}), make(chan struct{})
			slow := &table{t: t, contents: s.table.contents}
			stop(slow, sync.OnceFunc(func() { close(stands); <-goOn }))
			first, ended := s.fold(s.take(), slow), make(chan error, 1)
			go func() { ended <- first.Run(t.Context()) }()
			<-stands
			must(t, s.session(nil, func() bool { return s.lease().Record().From == 20 }))
			close(goOn)
			if err := <-ended; !errors.Is(err, ErrLost) {
				t.Errorf("the session that was replaced ends with %v", err)
			}
			if from, to := s.lease().Position(); from != 20 || to != 20 || !s.table.has(0, 20) {
				t.Errorf("the position is (%d, %d], and %d messages are stored", from, to, len(s.table.rows))
			}
		})
	}
}

// TestGrowsWhenMadeAnew: a stream that was made anew, and gets more messages than
// were folded while it is asked how far it is, is read from its start.
func TestGrowsWhenMadeAnew(t *testing.T) {
	s := newSite(t)
	s.cfg.Rewind, s.own, s.cfg.LeaderLag = true, &position{50, 50}, time.Minute
	s.publish(20)
	s.log = said{"asking again", sync.OnceFunc(func() { s.publish(40) })}
	must(t, s.session(nil, func() bool { return s.table.has(0, 60) }))
}

// said calls a function when something is logged.
type said struct {
	text string
	then func()
}

func (said) Enabled(context.Context, slog.Level) bool { return true }
func (h said) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h said) WithGroup(string) slog.Handler          { return h }

func (h said) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, h.text) {
		h.then()
	}
	return nil
}

// TestGivenUpWhileOpening: an owner that is told to stop before it folds leaves
// the lease to the next one, and the decided batch with it.
func TestGivenUpWhileOpening(t *testing.T) {
	s := newSite(t)
	s.publish(20)
	s.decide(0, 11)
	opening := make(chan struct{})
	s.table.opens = func(ctx context.Context) error {
		close(opening)
		<-ctx.Done()
		return ctx.Err()
	}
	must(t, s.session(nil, func() bool {
		select {
		case <-opening:
			return true
		default:
			return false
		}
	}))
	r := s.lease().Record()
	if r.Owner != "" || r.From != 0 || r.To != 11 {
		t.Errorf("the lease is left as %+v", r)
	}
}
