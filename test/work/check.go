package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// piece is an item at a stage, or of a user-defined queue: that has its key for a
// filename.
type piece struct {
	stage, filename string
	shard           int
}

// span is the time in which a daemon had a piece, by its own notes. One that
// was killed had it until it was dead.
type span struct {
	daemon     string
	begin, end time.Time
	fate       fate
}

// fate is how a span ended.
type fate byte

const (
	died    fate = iota // the daemon did
	ended               // the piece was worked to its end
	failing             // the daemon gave it back
)

// check compares the record, the summary and the notes with what was asked.
func (f *fleet) check(ctx context.Context, took time.Duration, out io.Writer) error {
	spans, acks, err := f.read()
	if err != nil {
		return err
	}
	again, by, errs := judge(spans, acks, f.outages)
	if len(spans) != f.jobs.pieces() {
		errs = append(errs, fmt.Errorf("%d pieces were worked, not %d", len(spans), f.jobs.pieces()))
	}
	struck := unfinished(spans)
	if struck == 0 {
		errs = append(errs, errors.New("no daemon was killed with a piece in hand"))
	}
	errs = append(errs, f.jobs.check(ctx))
	fmt.Fprintf(out,
		"%d pieces in %s: %d by Go, %d by Node, %d over HTTP; %d daemons killed, %d pieces in their hands; "+
			"%d times Millrace or its Postgres; %d pieces worked again since something died between their end and "+
			"the record of it\n",
		f.jobs.pieces(), took.Round(time.Millisecond), by["go"], by["node"], by["http"], f.kills, struck,
		f.parts, again)
	if errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(errs) == 0 {
		fmt.Fprintln(out, "lost 0, doubled 0")
	}
	return errors.Join(errs[:min(len(errs), 20)]...)
}

// outage is a time in which NATS was away, and in which it may have handed out
// again what plain daemons had.
type outage struct{ begin, end time.Time }

// excuse tells whether two daemons may have had a piece at a time: a daemon with a
// stock NATS client has it by the word of NATS alone, which a killed one forgets.
// The record of such a piece is as strict as any.
func excuse(a, b span, outages []outage) bool {
	if !a.plain() && !b.plain() {
		return false
	}
	return slices.ContainsFunc(outages, func(o outage) bool { return b.begin.After(o.begin) && a.begin.Before(o.end) })
}

func (s span) plain() bool { return strings.HasPrefix(s.daemon, "node") }

// judge finds pieces that two daemons had at a time without an excuse, or none to
// its end, or whose end was acknowledged to two. It counts those that were worked
// again, and who has worked how many.
func judge(
	spans map[piece][]span, acks map[piece][]int, outages []outage,
) (again int, by map[string]int, errs []error) {
	by = map[string]int{}
	for p, list := range spans {
		slices.SortFunc(list, func(a, b span) int { return a.begin.Compare(b.begin) })
		whole := 0
		for i, s := range list {
			if i > 0 && s.begin.Before(list[i-1].end) && !excuse(list[i-1], s, outages) {
				errs = append(errs, fmt.Errorf("%v was with %s until %s and with %s from %s", p, list[i-1].daemon,
					list[i-1].end, s.daemon, s.begin))
			}
			if s.fate == ended {
				whole++
				by[strings.TrimRight(s.daemon, "0123456789")]++
			}
		}
		if whole == 0 {
			errs = append(errs, fmt.Errorf("nobody has worked %v to its end", p))
		}
		again += max(whole-1, 0)
	}
	for p, generations := range acks {
		if len(generations) > 1 {
			errs = append(errs, fmt.Errorf("the end of %v was acknowledged to the takers %v", p, generations))
		}
	}
	return again, by, errs
}

// unfinished counts the pieces that daemons had in hand when they died.
func unfinished(spans map[piece][]span) (n int) {
	for _, list := range spans {
		for _, s := range list {
			if s.fate == died {
				n++
			}
		}
	}
	return n
}

// read reads the notes of all lives: who had which piece, and whose ends over
// HTTP were acknowledged, by generation.
func (f *fleet) read() (spans map[piece][]span, acks map[piece][]int, err error) {
	spans, acks = map[piece][]span{}, map[piece][]int{}
	for _, d := range f.daemons {
		for _, l := range d.lives {
			if err := l.read(spans, acks); err != nil {
				return nil, nil, fmt.Errorf("notes of %s: %w", l.daemon, err)
			}
		}
	}
	return spans, acks, nil
}

func (l life) read(spans map[piece][]span, acks map[piece][]int) error {
	f, err := os.Open(l.journal)
	if errors.Is(err, os.ErrNotExist) {
		return nil // killed before it wrote anything
	}
	if err != nil {
		return err
	}
	defer f.Close()
	open := map[piece]time.Time{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var at int64
		var what string
		var p piece
		var generation int
		if _, err := fmt.Sscanf(lines.Text(), "%d %s %s %s %d %d", &at, &what, &p.stage, &p.filename,
			&p.shard, &generation); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		switch what {
		case "B":
			open[p] = time.Unix(0, at)
		case "A":
			acks[p] = append(acks[p], generation)
		default:
			fate := ended
			if what == "F" {
				fate = failing
			}
			spans[p] = append(spans[p], span{l.daemon, open[p], time.Unix(0, at), fate})
			delete(open, p)
		}
	}
	for p, begin := range open {
		spans[p] = append(spans[p], span{l.daemon, begin, l.end, died})
	}
	return lines.Err()
}
