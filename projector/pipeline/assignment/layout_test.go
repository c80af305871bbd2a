package assignment

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func buckets(t *testing.T) func() jetstream.KeyValue {
	js := natstest.Start(t, stream.Config{}).JetStream()
	n := 0
	return func() jetstream.KeyValue {
		t.Helper()
		n++
		kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: fmt.Sprint("layout", n)})
		must(t, err)
		return kv
	}
}

// TestAgree: the first one decides, whatever others are set to.
func TestAgree(t *testing.T) {
	bucket := buckets(t)
	for i, c := range []struct {
		folded bool // without a layout, as before there were any
		wants  []uint32
		want   int
	}{
		{wants: []uint32{0, 0, 1, 2}, want: 1},
		{wants: []uint32{4, 0, 4, 1}, want: 4},
		{folded: true, wants: []uint32{3, 0}, want: 1},
	} {
		kv := bucket()
		if c.folded {
			_, err := kv.PutString(t.Context(), "funnel.0", `{"from":0,"to":0}`)
			must(t, err)
		}
		for _, want := range c.wants {
			if l, err := AgreeLayout(t.Context(), kv, want); err != nil || len(l.Current()) != c.want {
				t.Errorf("case %d: agreed on %+v, %v, want %d", i, l, err, c.want)
			}
		}
	}
	kv := bucket()
	_, err := kv.PutString(t.Context(), slots.Key, `{"slot_groups":1,"later":true}`)
	must(t, err)
	if _, err := AgreeLayout(t.Context(), kv, 0); !errors.Is(err, ErrUnknownLayout) {
		t.Errorf("a layout of a newer program is %v", err)
	}
}

// TestLost: where the layout is gone nobody decides on another one. A server
// that does not have it yet may have it when it is asked again.
func TestLost(t *testing.T) {
	bucket := buckets(t)
	const none = `{"from":0,"to":0}`
	for name, records := range map[string]map[string]string{
		"of several groups":     {"funnel.0": none, "funnel.1": none},
		"of one that has ended": {"funnel.0": `{"from":0,"to":"0","closing":true}`},
		"of later ones":         {"funnel.1": none},
	} {
		kv := bucket()
		for key, record := range records {
			_, err := kv.PutString(t.Context(), key, record)
			must(t, err)
		}
		if l, err := AgreeLayout(t.Context(), kv, 4); !errors.Is(err, ErrLost) || errors.Is(err, ErrUnknownLayout) {
			t.Errorf("%s: agreed on %+v, %v", name, l, err)
		}
		_, err := kv.PutString(t.Context(), slots.Key, `{"slot_groups":4}`)
		must(t, err)
		if l, err := AgreeLayout(t.Context(), kv, 0); err != nil || len(l.Current()) != 4 {
			t.Errorf("%s: there again it is %+v, %v", name, l, err)
		}
	}
}

// projectors fold a layout in the plainest way: what is open moves, by whoever
// owns it.
type projectors struct {
	t    *testing.T
	kv   jetstream.KeyValue
	logs map[uint32]*Lease
}

func (p *projectors) own(groups ...slots.Group) {
	p.t.Helper()
	for _, g := range groups {
		log, err := OpenLease(p.t.Context(), p.kv, g, "a")
		must(p.t, err)
		must(p.t, log.Take(p.t.Context()))
		p.logs[g.ID] = log
	}
}

func (p *projectors) read() slots.Layout {
	p.t.Helper()
	l, err := ReadLayout(p.t.Context(), p.kv)
	must(p.t, err)
	return l
}

func always(slots.Group, *Lease) bool { return true }

// TestRegroup holds invariants 2, 4 and 5 of package slots: each step, by
// whoever, and what is refused in between.
func TestRegroup(t *testing.T) {
	ctx := t.Context()
	kv := buckets(t)()
	if _, err := Regroup(ctx, kv, 4); !errors.Is(err, ErrNoLayout) {
		t.Errorf("regrouped before anything was folded: %v", err)
	}
	p := &projectors{t, kv, map[uint32]*Lease{}}
	l, err := AgreeLayout(ctx, kv, 2)
	must(t, err)
	p.own(l.Current()...)
	must(t, p.logs[0].Decide(ctx, 0, 70, ""))
	must(t, p.logs[1].Decide(ctx, 0, 90, ""))

	ask := func(groups uint32, want bool, is error) {
		t.Helper()
		if asked, err := Regroup(ctx, kv, groups); asked != want || !errors.Is(err, is) {
			t.Errorf("asked for %d: %v, %v", groups, asked, err)
		}
	}
	ask(2, false, nil) // as it is
	ask(4, true, nil)
	ask(4, true, nil) // by someone who did not hear the answer
	ask(3, false, slots.ErrUnderWay)

	// One that may not be closed yet holds the cut back.
	cut, err := CutLayout(ctx, kv, func(g slots.Group, _ *Lease) bool { return g.ID == 0 })
	if cut || err != nil {
		t.Errorf("cut %v, %v while a group is open", cut, err)
	}
	if err := p.logs[0].Decide(ctx, 70, 80, ""); !errors.Is(err, fold.ErrLost) {
		t.Errorf("a closed group decides: %v", err)
	}
	must(t, p.logs[1].Decide(ctx, 90, 120, ""))
	cut, err = CutLayout(ctx, kv, always)
	if !cut || err != nil {
		t.Errorf("cut %v, %v", cut, err)
	}
	if err := p.logs[1].Decide(ctx, 120, 130, ""); !errors.Is(err, fold.ErrLost) {
		t.Errorf("a closed group decides: %v", err)
	}
	if cut, err := CutLayout(ctx, kv, always); cut || err != nil {
		t.Errorf("cut again: %v, %v", cut, err)
	}
	l = p.read()
	if got := l.Current()[0]; l.Next != 0 || got != (slots.Group{ID: 2, Of: 4, After: 120}) {
		t.Errorf("the new groups begin with %+v in %+v", got, l)
	}
	ask(4, true, nil)
	ask(1, false, slots.ErrUnderWay)

	left, err := Left(ctx, kv, l)
	if must(t, err); !slices.Equal(left, l.Previous()) {
		t.Errorf("left are %+v", left)
	}
	p.own(left...)
	must(t, p.logs[0].Decide(ctx, 0, 70, "")) // as it was decided
	must(t, p.logs[0].Done(ctx, 120, 0))
	if left, err := Left(ctx, kv, l); err != nil || len(left) != 1 || left[0].ID != 1 {
		t.Errorf("left are %+v, %v", left, err)
	}
	must(t, p.logs[1].Decide(ctx, 90, 120, ""))
	ask(1, false, slots.ErrUnderWay) // decided is not done
	must(t, p.logs[1].Done(ctx, 120, 0))

	// Groups that nobody has taken yet can be closed as well.
	ask(1, true, nil)
	cut, err = CutLayout(ctx, kv, always)
	if l = p.read(); !cut || err != nil || !slices.Equal(l.Current(), []slots.Group{{ID: 6, Of: 1, After: 120}}) {
		t.Errorf("cut %v, %v: %+v", cut, err, l)
	}
	records, err := Checkpoints(ctx, kv, l.All())
	must(t, err)
	at := map[uint32]uint64{}
	for id, r := range records {
		at[id] = r.From
	}
	if want := map[uint32]uint64{0: 120, 1: 120, 2: 120, 3: 120, 4: 120, 5: 120}; !maps.Equal(at, want) {
		t.Errorf("positions are %v", at)
	}
	if upto, err := Folded(ctx, kv, Durable); upto != 120 || err != nil {
		t.Errorf("all are folded up to %d, %v", upto, err)
	}
}
