package mirror

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
)

// fixture is a verifier, what it has let pass, and a clock that is set by hand.
type fixture struct {
	*verifier
	passed []bounds
	clock  time.Time
}

func newFixture() *fixture {
	h := &fixture{clock: time.Unix(1e9, 0)}
	h.verifier = newVerifier(func(d *funnel.Delta) { h.passed = append(h.passed, bounds{d.Group, d.From, d.To}) },
		slog.New(slog.DiscardHandler), func() time.Time { return h.clock })
	return h
}

// announced returns a delta of so many events in parts, as it is encoded, and
// the decision of its batch.
func announced(group uint32, from, to uint64, parts, events int) (texts [][]byte, d decision) {
	var sums []funnel.Sum
	for i := range parts {
		part := funnel.Delta{
			Group: group, From: from, To: to, Part: uint32(i), Parts: uint32(parts), Stages: pipeline,
			Sources: []string{"s"},
			Entries: make([]funnel.Entry, events),
		}
		texts = append(texts, part.AppendBinary(nil))
		sums = append(sums, funnel.SumOf(texts[i]))
	}
	return texts, decision{bounds{group, from, to}, funnel.Digest(sums), 0}
}

func (h *fixture) all(texts [][]byte) {
	for _, text := range texts {
		h.hear(text)
	}
}

// TestVerifier: what passes is what the checkpoint of its group has, in bounds and
// content, whichever of the two comes first.
func TestVerifier(t *testing.T) {
	right, decided := announced(0, 10, 20, 2, 3)
	other, _ := announced(0, 10, 20, 2, 40_001)
	beyond, _ := announced(0, 20, 1<<40, 1, 1)
	stranger, _ := announced(7, 10, 20, 1, 1)
	for _, c := range []struct {
		name string
		do   func(*fixture)
		want int // parts that pass
	}{
		{"decided before", func(h *fixture) { h.decide(decided); h.all(right) }, 2},
		{"decided after", func(h *fixture) { h.all(right); h.decide(decided) }, 2},
		{"never decided", func(h *fixture) { h.all(right) }, 0},
		{"another content", func(h *fixture) { h.decide(decided); h.all(other) }, 0},
		{"another content before", func(h *fixture) { h.all(other); h.decide(decided); h.all(right) }, 2},
		{"beyond what is decided", func(h *fixture) { h.decide(decided); h.all(beyond) }, 0},
		{"an unknown group", func(h *fixture) { h.decide(decided); h.all(stranger) }, 0},
		{"a part is missing", func(h *fixture) { h.decide(decided); h.hear(right[1]) }, 0},
		{"an older program", func(h *fixture) { h.decide(decision{bounds: decided.bounds}); h.all(right) }, 2},
		{"nonsense", func(h *fixture) { h.hear([]byte("nonsense")); h.hear(nil); h.decide(decided); h.all(right) }, 2},
		{
			"said alive in between",
			func(h *fixture) { h.decide(decided); h.hear(right[0]); h.decide(decided); h.hear(right[1]) }, 2,
		},
	} {
		h := newFixture()
		c.do(h)
		if len(h.passed) != c.want || c.want > 0 && !slices.Contains(h.passed, decided.bounds) {
			t.Errorf("%s: %v passes, want %d parts", c.name, h.passed, c.want)
		}
	}
}

// TestVerifierIsBounded: what waits has a bound in bytes, in number and in time.
func TestVerifierIsBounded(t *testing.T) {
	h := newFixture()
	for i := range uint64(200) { // each of 900 KB, and a part of it missing
		texts, _ := announced(0, i, i+1, 2, 49_000)
		h.hear(texts[0])
	}
	if h.bytes > waitBytes || len(h.waiting) == 0 {
		t.Errorf("%d bytes wait", h.bytes)
	}
	for i := range uint64(2000) {
		texts, _ := announced(0, i, i+1, 2, 0)
		h.hear(texts[0])
	}
	if len(h.waiting) > waitDeltas {
		t.Errorf("%d deltas wait", len(h.waiting))
	}
	h.clock = h.clock.Add(waitFor + time.Second)
	h.expire()
	if len(h.waiting) > 0 || h.bytes != 0 {
		t.Errorf("%d deltas, %d bytes wait after their time", len(h.waiting), h.bytes)
	}
	for i := range uint64(1000) {
		h.decide(decision{bounds: bounds{0, i, i + 1}})
	}
	if n := len(h.decided[0]); n > remembered {
		t.Errorf("%d decisions are remembered", n)
	}
}

// TestAheadOfCheckpoints: a mirror that has applied what no checkpoint speaks of
// goes back to where the checkpoint is, and loads.
func TestAheadOfCheckpoints(t *testing.T) {
	p := newPositions()
	begin := time.Unix(1e9, 0)
	p.checkpoint(Checkpoint{Group: 0, Durable: 10, Decided: 20}, begin)
	p.advance(0, 20)
	if p.ahead(begin) || p.ahead(begin.Add(time.Hour)) {
		t.Error("a batch that is decided counts as false")
	}
	p.advance(0, 1<<40)
	if p.ahead(begin) || !p.ahead(begin.Add(2*lagAllowed)) {
		t.Error("what no checkpoint speaks of is kept")
	}
	p.retreat()
	if p.applied[0] != 10 || p.ahead(begin.Add(time.Hour)) {
		t.Errorf("it goes back to %d", p.applied[0])
	}
	// So does one whose checkpoint has gone back, as one that was forged has.
	p.checkpoint(Checkpoint{Group: 0, Durable: 1 << 50, Decided: 1 << 50}, begin)
	p.catchUp()
	p.checkpoint(Checkpoint{Group: 0, Durable: 30, Decided: 30}, begin)
	if p.ahead(begin) || !p.ahead(begin.Add(2*lagAllowed)) {
		t.Error("a checkpoint that is not there any more is believed")
	}
}
