package lag

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/internal/sampler/samplertest"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// installation has a stream and checkpoints, and projectors only as far as a test writes
// what they would.
type installation struct {
	*testing.T
	js  jetstream.JetStream
	kv  jetstream.KeyValue
	srv *natstest.Server
}

func install(t *testing.T) installation {
	srv := natstest.Start(t, stream.Config{})
	js := srv.JetStream()
	kv, err := js.KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	return installation{t, js, kv, srv}
}

func (i installation) publish(from, to int) {
	i.Helper()
	for n := from; n < to; n++ {
		subject := stream.EventSubject("crawled", sha256.Sum256([]byte(strconv.Itoa(n))))
		if _, err := i.js.Publish(i.Context(), subject, []byte("{}")); err != nil {
			i.Fatal(err)
		}
	}
}

func (i installation) put(key string, value []byte) {
	i.Helper()
	if _, err := i.kv.Put(i.Context(), key, value); err != nil {
		i.Fatal(err)
	}
}

func (i installation) divide(groups uint32) slots.Layout {
	i.Helper()
	l, err := slots.New(groups)
	if err != nil {
		i.Fatal(err)
	}
	text, err := l.Encode()
	if err != nil {
		i.Fatal(err)
	}
	i.put(slots.Key, text)
	return l
}

func (i installation) checkpoint(g slots.Group, c funnel.Checkpoint) {
	i.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		i.Fatal(err)
	}
	i.put(g.Key(), text)
}

// number returns the value of a series; -1: it is absent.
func number(t *testing.T, series map[string]string, name string) float64 {
	t.Helper()
	text, ok := series[name]
	if !ok {
		return -1
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLagGrowsWhileNobodyFolds: what is behind a group grows with the stream though its
// position stays, and so does the age of what waits.
func TestLagGrowsWhileNobodyFolds(t *testing.T) {
	i := install(t)
	source := Source(Config{Lease: time.Minute}, i.js)
	for series := range samplertest.Read(t, source) {
		if series == `millrace_projector_behind{group="0"}` {
			t.Error("the lag of a group is known though no projector has said which there are")
		}
	}
	group := i.divide(1).Current()[0]
	i.publish(0, 10)
	i.checkpoint(group, funnel.Checkpoint{From: 10, To: 10, Owner: "a"})
	read := func() (behind, seconds float64) {
		got := samplertest.Read(t, source)
		return number(t, got, `millrace_projector_behind{group="0"}`), number(t, got, `millrace_projector_behind_seconds{group="0"}`)
	}
	if behind, seconds := read(); behind != 0 || seconds != 0 {
		t.Errorf("%v events and %v s behind, all are folded", behind, seconds)
	}
	i.publish(10, 25)
	behind, seconds := read()
	if behind != 15 || seconds < 0 {
		t.Errorf("%v events and %v s behind, want 15", behind, seconds)
	}
	i.publish(25, 30)
	if after, older := read(); after != 20 || older <= seconds {
		t.Errorf("%v events and %v s behind, want 20 and more than %v s", after, older, seconds)
	}
	i.checkpoint(group, funnel.Checkpoint{From: 30, To: 30, Owner: "a"})
	if behind, seconds := read(); behind != 0 || seconds != 0 {
		t.Errorf("%v events and %v s behind after all were folded", behind, seconds)
	}
	i.srv.Stop()
	if behind, _ := read(); behind != -1 {
		t.Errorf("%v events behind while NATS is away", behind)
	}
}

// TestUnfolded: each reason why nobody folds a group is told, and none of a group that is
// folded.
func TestUnfolded(t *testing.T) {
	i := install(t)
	groups := i.divide(5).Current()
	i.checkpoint(groups[0], funnel.Checkpoint{Owner: "a"})
	i.checkpoint(groups[1], funnel.Checkpoint{})
	i.put(groups[2].Key(), []byte("not a checkpoint"))
	i.checkpoint(groups[3], funnel.Checkpoint{Owner: "a"})
	local := map[uint32]Reason{3: "rows_missing"}
	expect := func(lease time.Duration, want map[uint32]Reason) {
		t.Helper()
		got := samplertest.Read(t, Source(Config{Lease: lease, Unfolded: func() map[uint32]Reason { return local }}, i.js))
		for _, g := range groups {
			for _, reason := range []Reason{Unassigned, Silent, PositionDamaged, "rows_missing"} {
				name := fmt.Sprintf("millrace_slot_group_unfolded{group=%q,reason=%q}", strconv.Itoa(int(g.ID)), reason)
				if _, told := got[name]; told != (want[g.ID] == reason) {
					t.Errorf("%s: told %t, want the reason %q", name, told, want[g.ID])
				}
			}
		}
		if n := number(t, got, "millrace_slot_groups"); n != 5 {
			t.Errorf("%v groups", n)
		}
	}
	want := map[uint32]Reason{1: Unassigned, 2: PositionDamaged, 3: "rows_missing", 4: Unassigned}
	expect(time.Hour, want)
	want[0] = Silent
	expect(time.Nanosecond, want)
	if err := i.kv.Delete(t.Context(), groups[0].Key()); err != nil {
		t.Fatal(err)
	}
	want[0] = PositionDamaged
	expect(time.Hour, want)
	got := samplertest.Read(t, Source(Config{Lease: time.Hour}, i.js))
	if n := number(t, got, `millrace_projector_behind{group="0"}`); n != -1 {
		t.Errorf("%v events behind a position that was deleted", n)
	}
}

// TestMirrorIsNotLoaded: the lag of views that are not there is not 0.
func TestMirrorIsNotLoaded(t *testing.T) {
	i := install(t)
	var at []Position
	source := MirrorSource(func() []Position { return at }, i.js)
	is := func(want float64) {
		t.Helper()
		if n := number(t, samplertest.Read(t, source), `millrace_mirror_behind{group="0"}`); n != want {
			t.Errorf("%v events behind, want %v", n, want)
		}
	}
	is(-1)
	at = []Position{{Group: i.divide(1).Current()[0]}}
	is(0)
	i.publish(0, 3)
	is(3)
}
