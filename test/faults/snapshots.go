package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// snapshot is what a WebSocket has said of a source.
type snapshot struct {
	stages   []count
	folded   uint64 // messages up to this sequence are counted
	exact    bool   // so are the articles
	from, to time.Time
}

func (s snapshot) String() string {
	return fmt.Sprintf("%v (%s to %s, folded up to %d)", s.stages, s.from.Format(time.StampMilli),
		s.to.Format(time.StampMilli), s.folded)
}

// below names a stage of which there is less than before; empty: there is none.
// Estimates of articles may fall when they take the place of exact numbers.
func (s snapshot) below(before snapshot) string {
	for i, was := range before.stages {
		if i >= len(s.stages) || s.stages[i].Events < was.Events ||
			s.exact && before.exact && s.stages[i].Articles < was.Articles {
			return was.Name
		}
	}
	return ""
}

// past keeps snapshots of a source, evenly thinned out so that they stay few.
type past struct {
	kept          []snapshot
	every, passed int // it keeps one in so many, and has passed over some since
}

// mostKept bounds the snapshots of a source: 0.5 MB.
const mostKept = 2000

func (p *past) add(s snapshot) {
	if p.passed++; p.passed < p.every {
		return
	}
	p.passed = 0
	if p.kept = append(p.kept, s); len(p.kept) < mostKept {
		return
	}
	half := p.kept[:0]
	for i := 1; i < mostKept; i += 2 {
		half = append(half, p.kept[i])
	}
	p.kept, p.every = half, 2*max(1, p.every)
}

// compareLive holds what the WebSocket has said, in the end and on the way, to
// the recount. Where one slot group has folded everything, each number is known
// that belongs to a sequence; several are beyond it by different amounts.
func (v *verdict) compareLive(ctx context.Context, l *live, t truth, alone bool) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for _, source := range l.sources {
		events := t.in(scope{source: source, from: dayAgo()})
		want := stages(events)
		if got, ok := l.reaches(ctx, source, want); !ok {
			v.wrong("WebSocket, source %q: %v, want %v", source, got, want)
		}
		l.mu.Lock()
		if past := l.past[source]; past != nil {
			v.compareSnapshots(source, past.kept, events, alone)
		}
		l.mu.Unlock()
	}
	v.reportLive(l)
}

// reportLive takes over what a WebSocket has been found to do wrong.
func (v *verdict) reportLive(l *live) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		v.wrong("WebSocket: %s", f)
	}
}

// compareSnapshots holds each snapshot to the events up to its sequence: it has
// no less of any stage, and no more if it is alone. Of each source the first
// that differ are told.
func (v *verdict) compareSnapshots(source string, kept []snapshot, events []*told, alone bool) {
	byFolded := slices.SortedFunc(slices.Values(kept), func(a, b snapshot) int {
		return cmp.Compare(a.folded, b.folded)
	})
	bySeq := slices.SortedFunc(slices.Values(events), func(a, b *told) int { return cmp.Compare(a.seq, b.seq) })
	counted, told := byStage(nil), 0
	for _, s := range byFolded {
		for len(bySeq) > 0 && bySeq[0].seq <= s.folded {
			counted[slices.Index(stageNames(), bySeq[0].Stage)].add(bySeq[0].fact)
			bySeq = bySeq[1:]
		}
		text := s.differs(counted, alone)
		if text == "" {
			continue
		}
		if told++; told <= 3 {
			v.wrong("WebSocket, source %q: %s: %s", source, s, text)
		}
	}
}

// differs says how a snapshot differs from what was counted up to its sequence.
func (s snapshot) differs(counted []*tally, alone bool) string {
	if !s.exact || len(s.stages) != len(counted) {
		return "it is not exact, or has other stages"
	}
	for i, n := range counted {
		got, want := s.stages[i], count{stageNames()[i], n.events, len(n.articles)}
		less := got.Events < want.Events || got.Articles < want.Articles
		if got.Name != want.Name || less || alone && got != want {
			return fmt.Sprintf("%v, want %v", got, want)
		}
	}
	return ""
}
