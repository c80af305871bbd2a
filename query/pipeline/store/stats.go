package store

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
)

// Roles are the stages that statistics are about. One that the pipeline does
// not have is empty.
type Roles struct{ Crawl, Classify, Route, Publish string }

// Breakdowns are the events of a scope by what they carry.
type Breakdowns struct {
	Sources, Versions, Topics, Channels map[string]uint64
	Totals                              map[string]Total // by "source", "version", "topic" and "channel"
}

// Total is how many names there are of a kind, and events with one.
type Total struct{ Names, Events uint64 }

// Breakdowns counts the events of a scope by what they carry, the limit
// largest of each: those of the crawl stage by source, of the classify stage
// by model version and by topic, of the publish stage by channel.
func (s *Store) Breakdowns(ctx context.Context, c Scope, r Roles, limit int) (Breakdowns, error) {
	b := Breakdowns{
		Totals: map[string]Total{}, Sources: map[string]uint64{}, Versions: map[string]uint64{},
		Topics: map[string]uint64{}, Channels: map[string]uint64{},
	}
	kinds := map[string]map[string]uint64{
		"source": b.Sources, "version": b.Versions, "topic": b.Topics, "channel": b.Channels,
	}
	p := c.params(reads.Params{"crawl": r.Crawl, "classify": r.Classify, "publish": r.Publish, "limit": limit})
	err := s.set.Each(ctx, "breakdowns.sql", p, func(rows driver.Rows) error {
		var kind, name string
		var n uint64
		var total Total
		if err := rows.Scan(&kind, &name, &n, &total.Names, &total.Events); err != nil {
			return err
		}
		kinds[kind][name], b.Totals[kind] = n, total
		return nil
	})
	return b, err
}

// Middle is where numbers lie. Both are nil when there are none.
type Middle struct{ Mean, Median *float64 }

// Quality returns where the quality scores of a scope lie, the median by one
// article of sample.
func (s *Store) Quality(ctx context.Context, c Scope, r Roles, sample uint32) (m Middle, err error) {
	p := c.params(reads.Params{"classify": r.Classify, "sample": sample})
	err = s.set.Each(ctx, "quality.sql", p, func(rows driver.Rows) error { return rows.Scan(&m.Mean, &m.Median) })
	return m, err
}

// Kinds of legs.
const (
	EveryLeg          = iota // from a stage to the next that an article reached
	CrawlToClassify          // this one and the next two: of articles that
	ClassifyToPublish        // reached all stages of the roles that the
	EndToEnd                 // pipeline has
)

// Leg is the way of articles from one stage to another, by places in the
// pipeline from 1.
type Leg struct {
	Kind         int
	From, To     uint8
	Articles     uint64
	Mean, Median float64 // seconds
}

// Latencies measures the legs of the articles of a scope between the first
// times at which they reached the stages, for one article of sample.
func (s *Store) Latencies(ctx context.Context, c Scope, stages []string, r Roles, sample uint32) ([]Leg, error) {
	place := func(name string) uint8 {
		for i, stage := range stages {
			if stage == name {
				return uint8(i + 1)
			}
		}
		return 0
	}
	p := c.params(reads.Params{
		"stages": stages, "sample": sample,
		"crawl": place(r.Crawl), "classify": place(r.Classify), "publish": place(r.Publish),
	})
	return reads.Rows(ctx, s.set, "latencies.sql", p, func(rows driver.Rows) (l Leg, err error) {
		var kind uint8
		err = rows.Scan(&kind, &l.From, &l.To, &l.Articles, &l.Mean, &l.Median)
		l.Kind = int(kind)
		return l, err
	})
}
