package pipeline

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/natstest"
	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// at are positions that a test sets.
type at []mirror.GroupPosition

func (p *at) GroupPositions() []mirror.GroupPosition { return *p }

// TestLag: what is behind each group is what a recount of the stream says, with
// one group, with several, and while they are changed.
func TestLag(t *testing.T) {
	js := natstest.Start(t, stream.Config{}).JetStream()
	var subjects []string // by sequence, from 1
	for i := range 200 {
		subject := stream.EventSubject("crawled", sha256.Sum256(fmt.Append(nil, i)))
		if _, err := js.Publish(t.Context(), subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, subject)
	}
	recount := func(g slots.Group, after uint64) (n uint64) {
		for i, subject := range subjects {
			if seq := uint64(i + 1); seq > after && (g.Upto == 0 || seq <= g.Upto) && subject != "" && g.Owns(subject) {
				n++
			}
		}
		return n
	}
	var positions at
	l := lagging{js, &positions}
	if got, err := l.measure(t.Context()); err != nil || got.LastSeq != 200 || len(got.Groups) != 0 {
		t.Errorf("while no groups are known: %+v, %v", got, err)
	}
	for _, groups := range []uint32{1, 2, 3, 256} {
		layout, err := slots.New(groups)
		if err != nil {
			t.Fatal(err)
		}
		positions = nil
		for i, g := range layout.Current() {
			positions = append(positions, mirror.GroupPosition{Group: g, Folded: []uint64{200, 0, 50, 199, 300}[i%5]})
		}
		checkLag(t, l, positions, recount)
	}
	s, err := js.Stream(t.Context(), stream.Events)
	if err != nil {
		t.Fatal(err)
	}
	one, err := slots.New(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 2, 51, 52, 120, 199} { // the first ones, and some that leave gaps
		if err := s.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
		subjects[seq-1] = ""
		for _, folded := range []uint64{0, 1, 50, 51, 198, 200} {
			positions = at{{Group: one.Current()[0], Folded: folded}}
			checkLag(t, l, positions, recount)
		}
	}
	layout, _ := slots.New(2)
	layout, _ = layout.Ask(3)
	layout, err = layout.Cut(100)
	if err != nil {
		t.Fatal(err)
	}
	positions = nil
	for _, g := range append(layout.Previous(), layout.Current()...) {
		positions = append(positions, mirror.GroupPosition{Group: g, Folded: max(g.After, 40)})
	}
	checkLag(t, l, positions, recount)
	left := 0
	for range s.ConsumerNames(t.Context()).Name() {
		left++
	}
	if left > 0 {
		t.Errorf("%d consumers are left", left)
	}
}

// checkLag measures without the bound that readers of the view have: a busy
// machine takes longer to count for hundreds of groups.
func checkLag(t *testing.T, l lagging, positions at, recount func(slots.Group, uint64) uint64) {
	t.Helper()
	got, err := l.measure(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Groups) != len(positions) {
		t.Fatalf("%d groups, want %d", len(got.Groups), len(positions))
	}
	for i, p := range positions {
		want := recount(p.Group, p.Folded)
		if g := got.Groups[i]; g.Group != p.ID || g.FoldedSeq != p.Folded || g.EventsBehind != want ||
			g.SecondsBehind > 3600 || (want == 0 && g.SecondsBehind > 0) {
			t.Errorf("%+v of %d groups: %+v, want %d behind", p, len(positions), g, want)
		}
	}
}

// TestLagIsNotKnown: readers are told when NATS does not answer.
func TestLagIsNotKnown(t *testing.T) {
	srv := natstest.Start(t, stream.Config{})
	js := srv.JetStream()
	srv.Stop()
	_, source, _ := lagView(js, &at{}).Open(auth.Caller{}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := source.Snapshot(ctx); err == nil {
		t.Errorf("%s", s.Body)
	}
}
