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

// piece is an item at a stage.
type piece struct {
	stage, filename string
	shard           int
}

// span is the time in which a daemon had a piece, by its own notes. One that
// was killed had it until it was dead.
type span struct {
	daemon     string
	begin, end time.Time
	whole      bool
}

// check compares the record, the summary and the notes with what was asked.
func (c *crew) check(ctx context.Context, took time.Duration, out io.Writer) error {
	items := c.cfg.files * c.cfg.shards
	spans, err := c.spans()
	if err != nil {
		return err
	}
	again, by, errs := judge(spans)
	if len(spans) != items*len(queues) {
		errs = append(errs, fmt.Errorf("%d pieces were worked, not %d", len(spans), items*len(queues)))
	}
	struck := unfinished(spans)
	if struck == 0 {
		errs = append(errs, errors.New("no daemon was killed with a piece in hand"))
	}
	starts, recorded := c.checkRecord(ctx, items)
	errs = append(errs, recorded, c.checkSummary(ctx, items))
	fmt.Fprintf(out, "%d pieces in %s: %d by Go, %d by Node, %d over HTTP; %d daemons killed, %d pieces in their hands; "+
		"%d starts; %d pieces worked again since their daemon died between its end and the record of it\n",
		items*len(queues), took.Round(time.Millisecond), by["go"], by["node"], by["http"], c.kills, struck, starts, again)
	return errors.Join(errs[:min(len(errs), 20)]...)
}

// judge finds pieces that two daemons had at a time, or none to its end. It
// counts those that were worked again, and who has worked how many.
func judge(spans map[piece][]span) (again int, by map[string]int, errs []error) {
	by = map[string]int{}
	for p, list := range spans {
		slices.SortFunc(list, func(a, b span) int { return a.begin.Compare(b.begin) })
		whole := 0
		for i, s := range list {
			if i > 0 && s.begin.Before(list[i-1].end) {
				errs = append(errs, fmt.Errorf("%v was with %s until %s and with %s from %s", p, list[i-1].daemon, list[i-1].end, s.daemon, s.begin))
			}
			if s.whole {
				whole++
				by[strings.TrimRight(s.daemon, "0123456789")]++
			}
		}
		if whole == 0 {
			errs = append(errs, fmt.Errorf("nobody has worked %v to its end", p))
		}
		again += whole - 1
	}
	return again, by, errs
}

// unfinished counts the pieces that daemons had in hand when they died.
func unfinished(spans map[piece][]span) (n int) {
	for _, list := range spans {
		for _, s := range list {
			if !s.whole {
				n++
			}
		}
	}
	return n
}

// spans reads the notes of all lives.
func (c *crew) spans() (map[piece][]span, error) {
	all := map[piece][]span{}
	for _, d := range c.daemons {
		for _, l := range d.lives {
			if err := l.read(all); err != nil {
				return nil, fmt.Errorf("notes of %s: %w", l.daemon, err)
			}
		}
	}
	return all, nil
}

func (l life) read(all map[piece][]span) error {
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
		if _, err := fmt.Sscanf(lines.Text(), "%d %s %s %s %d", &at, &what, &p.stage, &p.filename, &p.shard); err != nil {
			return fmt.Errorf("%q: %w", lines.Text(), err)
		}
		if what == "B" {
			open[p] = time.Unix(0, at)
			continue
		}
		all[p] = append(all[p], span{l.daemon, open[p], time.Unix(0, at), true})
		delete(open, p)
	}
	for p, begin := range open {
		all[p] = append(all[p], span{l.daemon, begin, l.end, false})
	}
	return lines.Err()
}

// checkRecord looks at the history: one end a piece, whatever else happened.
func (c *crew) checkRecord(ctx context.Context, items int) (starts int, err error) {
	pool, err := c.in.pool(ctx)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	var done, pieces int
	err = pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE move = 'done'), count(DISTINCT (item_id, stage)) FILTER (WHERE move = 'done'),
		count(*) FILTER (WHERE move = 'start') FROM millrace.history WHERE stage > 0`).Scan(&done, &pieces, &starts)
	if err != nil {
		return 0, fmt.Errorf("read the history: %w", err)
	}
	if want := items * len(queues); done != want || pieces != want {
		return starts, fmt.Errorf("the history has %d ends of %d pieces, not %d", done, pieces, want)
	}
	return starts, nil
}

// checkSummary compares the summary with what was registered.
func (c *crew) checkSummary(ctx context.Context, items int) error {
	s, err := c.in.summary(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if s.Total != items {
		errs = append(errs, fmt.Errorf("the summary counts %d items, not %d", s.Total, items))
	}
	for _, stage := range queues {
		if s.count(stage, "done") != items || s.count(stage, "new")+s.count(stage, "started")+s.count(stage, "failed") != 0 {
			errs = append(errs, fmt.Errorf("the summary has at %s: %v", stage, s.ByStage))
		}
	}
	if len(s.ByShard) != c.cfg.shards {
		errs = append(errs, fmt.Errorf("the summary has %d shards, not %d", len(s.ByShard), c.cfg.shards))
	}
	for _, one := range s.ByShard {
		if one.Total != c.cfg.files || one.Done != c.cfg.files || one.Failed != 0 {
			errs = append(errs, fmt.Errorf("the summary has %+v", one))
		}
	}
	return errors.Join(errs...)
}
