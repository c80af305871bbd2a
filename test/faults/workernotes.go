package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// span is the time in which a worker had a piece, by its own notes. One that was
// killed had it until it was dead.
type span struct {
	worker     string
	begin, end time.Time // the end is zero while the worker has it
	how        spanEnd
}

// spanEnd is how a span ended.
type spanEnd byte

const (
	notEnded spanEnd = iota // the worker has it, or was killed
	finished                // the piece was worked to its end
	gaveBack                // the attempt failed
)

// plain tells whether the worker has a stock client of NATS.
func (s span) plain() bool { return strings.HasPrefix(s.worker, "node") }

// workerSpans are the notes of all workers.
type workerSpans struct {
	of   map[piece][]span
	acks map[piece][]int // generations of the ends that were acknowledged over HTTP
}

func newWorkerSpans() *workerSpans { return &workerSpans{map[piece][]span{}, map[piece][]int{}} }

// read adds the notes of a worker, over all its lives. A piece that it had when it was
// killed may be begun again in a later one.
func (w *worker) read(s *workerSpans) error {
	f, err := os.Open(w.journal)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has not written anything
	}
	if err != nil {
		return err
	}
	defer f.Close()
	open := map[piece]time.Time{}
	left := func(p piece) { s.of[p] = append(s.of[p], span{w.name, open[p], w.endAfter(open[p]), notEnded}) }
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var at int64
		var what string
		var p piece
		var generation int
		if _, err := fmt.Sscanf(lines.Text(), "%d %s %s %s %d %d", &at, &what, &p.stage, &p.file, &p.shard, &generation); err != nil {
			return fmt.Errorf("notes of %s: %q: %w", w.name, lines.Text(), err)
		}
		switch _, begun := open[p]; what {
		case "B":
			if begun {
				left(p)
			}
			open[p] = time.Unix(0, at)
		case "A":
			s.acks[p] = append(s.acks[p], generation)
		default:
			how := finished
			if what == "F" {
				how = gaveBack
			}
			s.of[p] = append(s.of[p], span{w.name, open[p], time.Unix(0, at), how})
			delete(open, p)
		}
	}
	for p := range open {
		left(p)
	}
	return lines.Err()
}

// endAfter is when the run ended in which a moment lies; zero: it has not.
func (p *process) endAfter(at time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, end := range p.ends {
		if end.After(at) {
			return end
		}
	}
	return time.Time{}
}

// inHand counts pieces that workers have now, and that they had when they were killed.
func (s *workerSpans) inHand() (now, died int) {
	for _, list := range s.of {
		for _, one := range list {
			now += btoi(one.how == notEnded && one.end.IsZero())
			died += btoi(one.how == notEnded && !one.end.IsZero())
		}
	}
	return now, died
}

// absence is a time in which NATS was away, and in which it may have handed out again
// what plain workers had.
type absence struct{ begin, end time.Time }

// excuse tells whether two workers may have had a piece at a time: one with a stock
// client of NATS has it by the word of NATS alone, which forgets when it is killed.
// The record of such a piece is as strict as any.
func excuse(a, b span, away []absence) bool {
	if !a.plain() && !b.plain() {
		return false
	}
	return slices.ContainsFunc(away, func(o absence) bool { return b.begin.After(o.begin) && a.begin.Before(o.end) })
}

// judge finds pieces that two workers had at a time without an excuse, or none to its
// end, or whose end was acknowledged to two. It counts those that were worked again, and
// who has worked how many.
func (s *workerSpans) judge(v *workersVerdict, away []absence) {
	v.by = map[string]int{}
	for p, list := range s.of {
		slices.SortFunc(list, func(a, b span) int { return a.begin.Compare(b.begin) })
		whole := 0
		for i, one := range list {
			if i > 0 && one.begin.Before(list[i-1].end) && !excuse(list[i-1], one, away) {
				v.wrong("%v was with %s until %s and with %s from %s", p, list[i-1].worker, list[i-1].end, one.worker, one.begin)
			}
			if one.how == finished {
				whole++
				v.by[one.worker]++
			}
		}
		if whole == 0 {
			v.wrong("nobody has worked %v to its end", p)
		}
		v.again += max(whole-1, 0)
	}
	for p, generations := range s.acks {
		if len(generations) > 1 {
			v.wrong("the end of %v was acknowledged to the takers %v", p, generations)
		}
	}
}
