package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// say has a WebSocket say a snapshot of the stages crawled and indexed.
func say(l *live, ago time.Duration, method string, folded int, numbers ...int) {
	from := time.Now().Add(-ago).Format(time.RFC3339Nano)
	l.take(fmt.Appendf(nil,
		`{"id":"0","funnel":{"source":"","from":%q,"unique_method":%q,"stream":{"folded_seq":%d},"stages":[`+
			`{"name":"crawled","count":%d,"unique_articles":%d},{"name":"indexed","count":%d,"unique_articles":%d}]}}`,
		from, method, folded, numbers[0], numbers[1], numbers[2], numbers[3]))
}

// TestFalls: no number of any stage may fall, whatever the others do, but
// estimates, and those of another window.
func TestFalls(t *testing.T) {
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		say   func(*live)
		falls bool
	}{
		"growth":             {func(l *live) { say(l, day, "exact", 9, 5, 4, 3, 3) }, false},
		"events of a stage":  {func(l *live) { say(l, day, "exact", 9, 40, 40, 2, 2) }, true},
		"articles of one":    {func(l *live) { say(l, day, "exact", 9, 5, 2, 3, 3) }, true},
		"estimated articles": {func(l *live) { say(l, day, "sketch", 9, 5, 2, 3, 3) }, false},
		"another window":     {func(l *live) { say(l, 90*time.Hour, "exact", 9, 1, 1, 1, 1) }, false},
		"after another window": {func(l *live) {
			say(l, -day, "exact", 9, 1, 1, 1, 1)
			say(l, day, "exact", 9, 2, 2, 2, 2)
		}, true},
	} {
		l := newLive("")
		say(l, day, "exact", 8, 4, 3, 3, 2)
		test.say(l)
		v := &verdict{}
		if v.reportLive(l); (len(v.mismatches) > 0) != test.falls {
			t.Errorf("%s: %q", name, v.mismatches)
		}
	}
}

// TestSnapshots: a snapshot has what its sequence says, of one slot group no
// more, and of several no less.
func TestSnapshots(t *testing.T) {
	w := world(t, 60)
	upTo := func(seq uint64) snapshot {
		var events []*told
		for _, e := range w.told {
			if e.seq <= seq {
				events = append(events, e)
			}
		}
		return snapshot{stages: stages(events), folded: seq, exact: true}
	}
	for name, test := range map[string]struct {
		change       func(*snapshot)
		alone, among bool // it is found wrong
	}{
		"right":             {func(*snapshot) {}, false, false},
		"an event less":     {func(s *snapshot) { s.stages[1].Events-- }, true, true},
		"an article less":   {func(s *snapshot) { s.stages[4].Articles-- }, true, true},
		"an event more":     {func(s *snapshot) { s.stages[2].Events++ }, true, false},
		"an article more":   {func(s *snapshot) { s.stages[2].Articles++ }, true, false},
		"a later sequence":  {func(s *snapshot) { s.folded += w.last / 4 }, true, true},
		"an estimate":       {func(s *snapshot) { s.exact = false }, true, true},
		"other stages":      {func(s *snapshot) { s.stages[0].Name = "printed" }, true, true},
		"a stage too few":   {func(s *snapshot) { s.stages = s.stages[:4] }, true, true},
		"an early sequence": {func(s *snapshot) { s.folded = 0 }, true, false},
	} {
		kept := []snapshot{upTo(w.last), upTo(w.last / 2), upTo(w.last / 3)}
		test.change(&kept[1])
		for _, alone := range []bool{true, false} {
			v := &verdict{}
			v.compareSnapshots("", kept, w.told, alone)
			if want := alone && test.alone || !alone && test.among; (len(v.mismatches) == 1) != want {
				t.Errorf("%s, alone %t: %s", name, alone, strings.Join(v.mismatches, "\n"))
			}
		}
	}
}

// TestPast: what is kept of the past is bounded, and from all of it.
func TestPast(t *testing.T) {
	var p past
	const said = 50_000
	for i := range uint64(said) {
		p.add(snapshot{folded: i})
	}
	first, last := p.kept[0].folded, p.kept[len(p.kept)-1].folded
	if len(p.kept) < mostKept/2 || len(p.kept) >= mostKept || first > said/100 || last < said-said/100 {
		t.Errorf("%d kept, from %d to %d", len(p.kept), first, last)
	}
}
