package store

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/pipeline/mirror"
	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// QuarterCounts implements mirror.Store.
func (s *Store) QuarterCounts(
	ctx context.Context, source string, from time.Time, yield func(mirror.Count) error,
) error {
	p := reads.Params{"source": source, "from": from.Unix()}
	return s.set.Each(ctx, "quarter_counts.sql", p, func(rows driver.Rows) error {
		var c mirror.Count
		if err := rows.Scan(&c.Stage, &c.Bucket, &c.Group, &c.Events, &c.Seq); err != nil {
			return err
		}
		return yield(c)
	})
}

// LastSeen implements mirror.Store.
func (s *Store) LastSeen(
	ctx context.Context, source string, from, to time.Time, cut []uint64,
	yield func(stage string, bucket uint32, articles []uint64) error,
) error {
	p := Cut(cut).params()
	maps.Copy(p, reads.Params{"source": source, "from": from.UnixNano(), "to": to.UnixNano()})
	return s.set.Each(ctx, "last_seen.sql", p, func(rows driver.Rows) error {
		var stage string
		var bucket uint32
		var articles []uint64
		if err := rows.Scan(&stage, &bucket, &articles); err != nil {
			return err
		}
		return yield(stage, bucket, articles)
	})
}

// Sets implements mirror.Store.
func (s *Store) Sets(
	ctx context.Context, source string, spans []funnel.Span,
	yield func(stage string, events uint64, set *funnel.Set) error,
) error {
	for _, span := range spans {
		p := reads.Params{"source": source, "width": uint32(span.Width), "from": span.From, "to": span.To}
		err := s.set.Each(ctx, "sets.sql", p, func(rows driver.Rows) error {
			var stage string
			var events uint64
			var encoded []byte
			if err := rows.Scan(&stage, &events, &encoded); err != nil {
				return err
			}
			set := new(funnel.Set)
			if err := set.UnmarshalBinary(encoded); err != nil {
				return fmt.Errorf("stage %s: %w", stage, err)
			}
			return yield(stage, events, set)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// SingleEvents implements mirror.Store.
func (s *Store) SingleEvents(
	ctx context.Context, from, to time.Time, cut []uint64, limit int, yield func(mirror.Event) error,
) error {
	return s.singleEvents(ctx, Scope{Source: funnel.AllSources, From: from, To: to, Cut: cut}, limit, yield)
}

func (s *Store) singleEvents(ctx context.Context, c Scope, limit int, yield func(mirror.Event) error) error {
	p := c.params(reads.Params{"limit": limit})
	return s.set.Each(ctx, "single_events.sql", p, func(rows driver.Rows) error {
		var e mirror.Event
		if err := rows.Scan(&e.At, &e.Stage, &e.Source, &e.Article); err != nil {
			return err
		}
		return yield(e)
	})
}

// Stage is what a window holds of one stage.
type Stage struct{ Events, Articles uint64 }

// CountUpTo counts the events of a scope, but not beyond a limit.
func (s *Store) CountUpTo(ctx context.Context, c Scope, limit int) (n uint64, err error) {
	p := c.params(reads.Params{"limit": limit})
	err = s.set.Each(ctx, "count_up_to.sql", p, func(rows driver.Rows) error { return rows.Scan(&n) })
	return n, err
}

// sketch is a stage while its rows are being merged.
type sketch struct {
	events uint64
	set    funnel.Set
}

// Sketch counts the events of a scope by stage and estimates their distinct
// articles: from whole buckets, and single events on either side. Buckets hold
// whatever is folded, so the figures may be ahead of the scope's sequence for
// a moment; and they cannot leave reclassifications out.
func (s *Store) Sketch(ctx context.Context, c Scope) (map[string]Stage, error) {
	sketches := map[string]*sketch{}
	at := func(stage string) *sketch {
		if sketches[stage] == nil {
			sketches[stage] = new(sketch)
		}
		return sketches[stage]
	}
	lo, hi := funnel.Align(c.From, c.To)
	err := s.Sets(ctx, c.Source, funnel.Cover(lo, hi), func(stage string, events uint64, set *funnel.Set) error {
		k := at(stage)
		k.events += events
		return k.set.Merge(set)
	})
	if err != nil {
		return nil, err
	}
	for _, edge := range edges(c.From, c.To, lo, hi) {
		within := c
		within.From, within.To = edge[0], edge[1]
		err := s.singleEvents(ctx, within, 1<<40, func(e mirror.Event) error {
			k := at(e.Stage)
			k.events++
			k.set.Insert(e.Article)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	stages := make(map[string]Stage, len(sketches))
	for name, k := range sketches {
		stages[name] = Stage{k.events, min(k.set.Estimate(), k.events)}
	}
	return stages, nil
}

// edges returns what whole quarters leave of a window on either side. Where
// it holds no whole quarter it is all edge.
func edges(from, to, lo, hi time.Time) [][2]time.Time {
	if !lo.Before(hi) {
		return [][2]time.Time{{from, to}}
	}
	var out [][2]time.Time
	if from.Before(lo) {
		out = append(out, [2]time.Time{from, lo})
	}
	if hi.Before(to) {
		out = append(out, [2]time.Time{hi, to})
	}
	return out
}

// spanParams bind spans, of which there is one at least.
func spanParams(spans []funnel.Span) reads.Params {
	var widths []uint32
	var starts, ends []int64
	for _, span := range spans {
		widths, starts, ends = append(widths, uint32(span.Width)), append(starts, span.From), append(ends, span.To)
	}
	return reads.Params{
		"widths": widths, "starts": starts, "ends": ends, "first": starts[0], "last": ends[len(ends)-1],
	}
}
