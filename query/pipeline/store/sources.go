package store

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/funnel"
)

// SourceFilter says which sources a page holds.
type SourceFilter struct {
	From, To time.Time // [From, To)
	// Retired is the time before which the events table no longer has all events:
	// these are counted by whole quarters. From, and To if it lies before, has to
	// be one.
	Retired time.Time
	// Search is what names hold, all of its words, whatever their case; an
	// underscore is a blank. Empty: all sources.
	Search      string
	Skip, Limit int
}

// Source is a source with events.
type Source struct {
	Name   string
	Events uint64
	LastAt time.Time // its newest event, or the beginning of the quarter of it
	Rank   uint64    // from 1, most events first
}

// SourceTotals are of all sources of a window, but for Found.
type SourceTotals struct {
	Found   uint64 // that pass the search
	Largest uint64 // events of the largest
	Events  uint64 // of all
}

// Sources returns a page of sources: first one whose name is what is searched
// for, then those of most events. Without any on the page there are no totals.
func (s *Store) Sources(ctx context.Context, f SourceFilter) (page []Source, t SourceTotals, err error) {
	search := strings.ToLower(strings.ReplaceAll(f.Search, "_", " "))
	words := strings.Fields(search)
	if len(words) == 0 {
		words = []string{""} // an array without elements has no type
	}
	p := reads.Params{
		"from": f.From.UnixNano(), "to": f.To.UnixNano(), "words": words, "name": strings.Join(words, " "),
		"limit": f.Limit, "skip": f.Skip,
	}
	spans := []funnel.Span{{}} // nothing
	if f.From.Before(f.Retired) {
		p["from"] = f.Retired.UnixNano()
		spans = funnel.Cover(f.From, time.Unix(min(f.To.Unix(), f.Retired.Unix()), 0))
	}
	maps.Copy(p, spanParams(spans))
	err = s.set.Each(ctx, "sources.sql", p, func(rows driver.Rows) error {
		var v Source
		err := rows.Scan(&v.Name, &v.Events, &v.LastAt, &v.Rank, &t.Found, &t.Largest, &t.Events)
		v.LastAt = v.LastAt.UTC()
		page = append(page, v)
		return err
	})
	return page, t, err
}

// Activity is in which buckets a source has events, in their order.
type Activity struct {
	Begins []uint32 // in seconds since 1970
	Events []uint64 // of each
}

// Activities returns the activity of sources by their names, in buckets of a width.
func (s *Store) Activities(
	ctx context.Context, width funnel.Width, from, to time.Time, sources []string,
) (map[string]Activity, error) {
	active := map[string]Activity{}
	p := reads.Params{
		"width": uint32(width), "from": width.Floor(from.Unix()), "to": to.Unix(), "sources": sources,
	}
	err := s.set.Each(ctx, "source_activity.sql", p, func(rows driver.Rows) error {
		var name string
		var a Activity
		err := rows.Scan(&name, &a.Begins, &a.Events)
		active[name] = a
		return err
	})
	return active, err
}

// NearestSource returns the known source whose name is nearest to one, which is
// that one itself if it is known; empty when none is.
func (s *Store) NearestSource(ctx context.Context, name string) (near string, err error) {
	err = s.set.Each(
		ctx, "nearest_source.sql", reads.Params{"source": name},
		func(rows driver.Rows) error { return rows.Scan(&near) },
	)
	return near, err
}
