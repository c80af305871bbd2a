package fold

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/schemas/checkpoint"
	"github.com/millrace-io/millrace/schemas/stream"
)

func open(t *testing.T, kv jetstream.KeyValue, owner string) *LeaseLog[view] {
	t.Helper()
	l, err := OpenLog[view](t.Context(), kv, "funnel.0", owner, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestDecisions holds invariant 3 of the projector: bounds are decided once,
// and whoever has been replaced decides nothing more.
func TestDecisions(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	kv, err := srv.JetStream().KeyValue(t.Context(), stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a := open(t, kv, "a")
	must(a.Take(ctx))
	must(a.Decide(ctx, 0, 10, ""))
	must(a.Decide(ctx, 0, 10, "")) // the same again
	if a.Decide(ctx, 0, 11, "") == nil || a.Decide(ctx, 5, 20, "") == nil {
		t.Error("a decided batch got other bounds")
	}
	must(a.Decide(ctx, 10, 25, ""))
	before := a.Revision()
	must(a.Renew(ctx)) // a is alive, and that is all

	b := open(t, kv, "b")
	if r := b.Record(); r.From != 10 || r.To != 25 || r.Owner != "a" {
		t.Errorf("b finds %+v", r)
	}
	if b.Revision() == before {
		t.Error("b does not see that a is alive")
	}
	must(b.Take(ctx))
	for name, err := range map[string]error{
		"decide": a.Decide(ctx, 25, 30, ""), "done": a.Done(ctx, 25, 0), "release": a.Release(ctx), "take": a.Take(ctx),
		"renew": a.Renew(ctx),
	} {
		if !errors.Is(err, ErrLost) {
			t.Errorf("%s after b has taken over: %v", name, err)
		}
	}
	if b.Decide(ctx, 10, 20, "") == nil {
		t.Error("b cut a's batch anew")
	}
	must(b.Decide(ctx, 10, 25, ""))
	must(b.Done(ctx, 25, 0))
	must(b.Release(ctx))
	if r := open(t, kv, "c").Record(); r.From != 25 || r.To != 25 || r.Owner != "" {
		t.Errorf("c finds %+v", r)
	}
}

// view is what a fold keeps beside its position.
type view struct {
	Note string `json:"note,omitempty"`
}

// TestView: what the view keeps is written with the position, and carried over from
// owner to owner by those that say nothing of it.
func TestView(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	ctx := t.Context()
	kv, err := srv.JetStream().KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	a := open(t, kv, "a")
	step := func(what string, err error, want string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if r := open(t, kv, "").Record(); r.View.Note != want {
			t.Errorf("after %s the view keeps %q, want %q", what, r.View.Note, want)
		}
	}
	step("taking", a.Take(ctx), "")
	a.Keep(func(from uint64, last view) view { return view{fmt.Sprint(last.Note, from, ";")} })
	step("a batch", a.Decide(ctx, 0, 10, ""), "0;")
	step("resting", a.Done(ctx, 10, 0), "0;10;")
	b := open(t, kv, "b")
	step("another owner", b.Take(ctx), "0;10;")
	step("another owner's batch", b.Decide(ctx, 10, 20, "d"), "0;10;")
	step("the end", b.Close(ctx), "0;10;")
}

// TestClosing: a group that is closed has no owner, keeps the batch that was
// decided, and is closed for whoever takes it; the one that had it decides
// nothing more. A program that knows of no end reads no position in it.
func TestClosing(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	ctx := t.Context()
	kv, err := srv.JetStream().KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, err := OpenLog[view](ctx, kv, "funnel.5", "a", 40)
	must(err)
	if r := a.Record(); r.From != 40 || r.To != 40 {
		t.Errorf("a group that begins after 40 is at %+v", r)
	}
	must(a.Take(ctx))
	must(a.Decide(ctx, 40, 50, ""))
	b, err := OpenLog[view](ctx, kv, "funnel.5", "b", 40)
	must(err)
	must(b.Close(ctx))
	if err := a.Decide(ctx, 50, 60, ""); !errors.Is(err, ErrLost) {
		t.Errorf("decided after the group was closed: %v", err)
	}
	read := func() checkpoint.Record[view] {
		t.Helper()
		entry, err := kv.Get(ctx, "funnel.5")
		must(err)
		var old struct {
			From, To uint64
			Owner    string
		}
		if json.Unmarshal(entry.Value(), &old) == nil {
			t.Errorf("%s is read as %+v by one that knows of no end", entry.Value(), old)
		}
		r, err := checkpoint.Parse[view](entry.Value())
		must(err)
		r.At = time.Time{}
		return r
	}
	if r := read(); r != (checkpoint.Record[view]{From: 40, To: 50, Closing: true}) {
		t.Errorf("closed: %+v", r)
	}
	c, err := OpenLog[view](ctx, kv, "funnel.5", "c", 40)
	must(err)
	must(c.Take(ctx))
	must(c.Decide(ctx, 40, 50, ""))
	must(c.Done(ctx, 50, 0))
	if r := read(); r != (checkpoint.Record[view]{From: 50, To: 50, Owner: "c", Closing: true}) {
		t.Errorf("ended: %+v", r)
	}
}

// TestDamage: where something else than a position was written, or the key was
// deleted, whoever opens it finds the position before, puts it back, and cuts no
// batch anew. Whoever owned the group decides nothing more.
func TestDamage(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	ctx := t.Context()
	kv, err := srv.JetStream().KeyValue(ctx, stream.Checkpoints)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			_, err := kv.PutString(ctx, "funnel.0", text)
			must(err)
		}
	}
	for name, damage := range map[string]func(){
		"garbage":       func() { put("garbage") },
		"an answer":     func() { put(`{"stream":"EVENTS","seq":7}`) },
		"empty":         func() { put("") },
		"end before":    func() { put(`{"from":9,"to":3}`) },
		"deleted":       func() { must(kv.Delete(ctx, "funnel.0")) },
		"several times": func() { put("a", "b", "{}"); must(kv.Delete(ctx, "funnel.0")); put("c") },
	} {
		must(kv.Purge(ctx, "funnel.0"))
		put(`{"from":0,"to":0}`)
		a := open(t, kv, "a")
		must(a.Take(ctx))
		must(a.Decide(ctx, 0, 10, "d"))
		must(a.Decide(ctx, 10, 25, "e"))
		damage()
		for what, err := range map[string]error{
			"decide": a.Decide(ctx, 25, 30, ""), "renew": a.Renew(ctx),
			"done": a.Done(ctx, 25, 0),
		} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s: %s after it: %v", name, what, err)
			}
		}
		b := open(t, kv, "b")
		if r := b.Record(); b.Damage() == nil || r.From != 10 || r.To != 25 || r.Digest != "e" || r.Owner != "a" {
			t.Errorf("%s: b finds %+v, %v", name, r, b.Damage())
		}
		must(b.Take(ctx))
		if b.Decide(ctx, 10, 20, "") == nil {
			t.Errorf("%s: b cut the batch anew", name)
		}
		must(b.Decide(ctx, 10, 25, "e"))
		if c := open(t, kv, "c"); c.Damage() != nil || c.Record().To != 25 || c.Record().Owner != "b" {
			t.Errorf("%s: afterwards %+v, %v", name, c.Record(), c.Damage())
		}
	}
	for range 20 {
		put("garbage")
	}
	if _, err := OpenLog[view](ctx, kv, "funnel.0", "d", 0); !errors.Is(err, ErrDamaged) {
		t.Errorf("when nothing else is kept: %v", err)
	}
}
