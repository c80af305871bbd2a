package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/ingest/history"
)

// slack is how far beyond the day rows and events are looked at: one of a pair
// may lie on the other side of midnight.
const slack = time.Hour

const (
	pageRows    = 10_000
	batchEvents = 500
)

// Replay carries out the plan of a report, and notes in it what was published.
// The projector should have caught up with the stream before: what it has not
// folded yet looks as if it were missing.
func (r *Reconciler) Replay(ctx context.Context, report *Report, p *client.Publisher) error {
	retired, err := r.events.Retired(ctx, report.span)
	if err != nil {
		return fmt.Errorf("replay %s: %w", report.Date, err)
	}
	if retired && len(report.Plan) > 0 {
		return fmt.Errorf("replay %s: %w", report.Date, history.ErrRetired)
	}
	for i := range report.Plan {
		step := &report.Plan[i]
		for _, s := range report.Stages {
			if s.Name != step.Stage {
				continue
			}
			w := &writer{publisher: p}
			replay := r.replayRows
			if s.source.Counts() {
				replay = r.replayItems
			}
			err := replay(ctx, report.span, s, w)
			if err == nil {
				err = w.flush(ctx)
			}
			step.Events, step.Conflicts = w.published, w.conflicts
			if err != nil {
				return fmt.Errorf("replay %s of %s: %w", s.Name, report.Date, err)
			}
		}
	}
	report.Replayed = true
	return nil
}

// article is the first half of the hash that identifies one.
type article [16]byte

// replayRows publishes the rows that have no event.
func (r *Reconciler) replayRows(ctx context.Context, day history.Span, s Stage, w *writer) error {
	wide := history.Span{From: day.From.Add(-slack), Until: day.Until.Add(slack)}
	missing, err := r.missing(ctx, wide, s)
	if err != nil {
		return err
	}
	// Of these articles, the times of the events that there are.
	times := map[article]map[int64]int{}
	spare := map[article]int{} // events without a row of their time
	err = r.events.Articles(ctx, s.Name, wide, func(hash [32]byte, at time.Time) {
		if id := article(hash[:16]); missing[id] > 0 {
			if times[id] == nil {
				times[id] = map[int64]int{}
			}
			times[id][at.UnixMicro()]++
			spare[id]++
		}
	})
	if err != nil {
		return err
	}
	var without []history.Event
	err = each(ctx, s, wide, func(e history.Event) error {
		id := article(e.URLHash[:16])
		switch at := e.At.UnixMicro(); {
		case missing[id] <= 0:
		case times[id][at] > 0:
			times[id][at]--
			spare[id]--
		default:
			without = append(without, e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// Rows whose event bears a slightly different time have one nevertheless.
	for _, e := range without {
		if id := article(e.URLHash[:16]); spare[id] > 0 {
			spare[id]--
			continue
		}
		if e.At.Before(day.From) || !e.At.Before(day.Until) {
			continue // is for the report of its own day
		}
		if err := w.add(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// missing returns how many events articles lack; those that lack none are
// absent, or have a number of 0 or less.
func (r *Reconciler) missing(ctx context.Context, span history.Span, s Stage) (map[article]int, error) {
	missing := map[article]int{}
	err := each(ctx, s, span, func(e history.Event) error { missing[article(e.URLHash[:16])]++; return nil })
	if err != nil {
		return nil, err
	}
	err = r.events.Articles(ctx, s.Name, span, func(hash [32]byte, _ time.Time) {
		if id := article(hash[:16]); missing[id] > 1 {
			missing[id]--
		} else {
			delete(missing, id)
		}
	})
	return missing, err
}

// each gives the events of a stage that the rows of a span amount to.
func each(ctx context.Context, s Stage, span history.Span, do func(history.Event) error) error {
	x := history.NewExpander(s.source.Table)
	return rows(ctx, s, span, func(row *history.Row) error {
		var failed error
		// A row that becomes no event lacks none.
		_ = x.Expand(row, func(stage string) bool { return stage == s.Name }, func(e history.Event) bool {
			failed = do(e)
			return failed == nil
		})
		return failed
	})
}

func rows(ctx context.Context, s Stage, span history.Span, do func(*history.Row) error) error {
	var after history.Cursor
	for {
		page, err := s.source.Read(ctx, span, after, pageRows)
		if err != nil {
			return err
		}
		for i := range page {
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < pageRows {
			return nil
		}
		after = history.Cursor{At: page[len(page)-1].At, ID: page[len(page)-1].ID}
	}
}

// replayItems publishes as many items as are missing: the first that Millrace
// has not got, in the order of the executions. A replay that comes before the
// last has been folded finds the same.
func (r *Reconciler) replayItems(ctx context.Context, day history.Span, s Stage, w *writer) error {
	// The items are read before the number, so that of what is folded between
	// the two too little is replayed, and not too much.
	have, err := r.events.Items(ctx, s.Name, day)
	if err != nil {
		return err
	}
	recorded, err := s.source.Count(ctx, day)
	if err != nil {
		return err
	}
	n, err := r.events.Count(ctx, s.Name, day)
	if err != nil {
		return err
	}
	left := recorded.Items[s.Name] - n
	x := history.NewExpander(s.source.Table)
	return rows(ctx, s, day, func(row *history.Row) error {
		for n := int64(1); n <= row.Items(s.Name) && left > 0; n++ {
			if have[history.ItemURL(row.ID, n)] {
				continue
			}
			e, err := x.Item(row, s.Name, n)
			if err != nil {
				return err
			}
			if err := w.add(ctx, e); err != nil {
				return err
			}
			left--
		}
		return nil
	})
}

// writer publishes events in batches.
type writer struct {
	publisher *client.Publisher
	batch     []client.Message
	published int64
	conflicts int64 // whose key an event of another stage or service has
}

func (w *writer) add(ctx context.Context, e history.Event) error {
	if w.batch = append(w.batch, e.Message); len(w.batch) < batchEvents {
		return nil
	}
	return w.flush(ctx)
}

func (w *writer) flush(ctx context.Context) error {
	if len(w.batch) == 0 {
		return nil
	}
	outcomes, err := w.publisher.PublishRaw(ctx, w.batch)
	for _, o := range outcomes {
		switch {
		case errors.Is(o.Err, client.ErrConflict): // no replay mends it; the event stays missing
			w.conflicts++
		case o.Err != nil:
			return err
		default:
			w.published++
		}
	}
	w.batch = nil
	return nil
}
