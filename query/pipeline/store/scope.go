package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
	"github.com/millrace-io/millrace/schemas/event"
)

// Cut is up to where in the stream events are counted, as tables may hold more
// for a moment: a sequence for each slot group, or one for all.
type Cut []uint64

// Seq returns the sequence up to which everything is counted.
func (c Cut) Seq() uint64 {
	if len(c) == 0 {
		return 0
	}
	return slices.Min(c)
}

// params bind the cut. An article's slot is the first byte of its hash; group
// g of n has the slots that leave the remainder g when they are divided by n.
func (c Cut) params() reads.Params {
	if len(c) == 0 {
		c = Cut{0}
	}
	return reads.Params{"seq": slices.Max(c), "groups": len(c), "upto": []uint64(c)}
}

// Scope says which events are counted.
type Scope struct {
	Source   string // empty: all
	From, To time.Time
	Cut
	// SkipReclassified leaves reclassifications out.
	SkipReclassified bool
}

// params are those of the scope, and more.
func (c Scope) params(more reads.Params) reads.Params {
	p := c.Cut.params()
	maps.Copy(p, reads.Params{
		"source": c.Source, "from": c.From.UnixNano(), "to": c.To.UnixNano(), "skip_reclassified": c.SkipReclassified,
		"max_score": event.MaxScore,
	})
	maps.Copy(p, more)
	return p
}

// Exact counts the events and the distinct articles of a scope by stage.
func (s *Store) Exact(ctx context.Context, c Scope) (map[string]Stage, error) {
	return s.stages(ctx, "exact.sql", c)
}

// Estimate counts the events of a scope by stage and estimates their distinct
// articles, with a standard error below 0.5 %.
func (s *Store) Estimate(ctx context.Context, c Scope) (map[string]Stage, error) {
	return s.stages(ctx, "estimate.sql", c)
}

func (s *Store) stages(ctx context.Context, query string, c Scope) (map[string]Stage, error) {
	stages := map[string]Stage{}
	err := s.set.Each(ctx, query, c.params(nil), func(rows driver.Rows) error {
		var name string
		var stage Stage
		if err := rows.Scan(&name, &stage.Events, &stage.Articles); err != nil {
			return err
		}
		stages[name] = stage
		return nil
	})
	return stages, err
}

// Counts counts the events of a scope by stage.
func (s *Store) Counts(ctx context.Context, c Scope) (map[string]uint64, error) {
	return reads.Map[string, uint64](ctx, s.set, "counts.sql", c.params(nil))
}

// Landed returns up to which sequence each slot group has rows in the funnel
// table.
func (s *Store) Landed(ctx context.Context) (map[uint32]uint64, error) {
	return reads.Map[uint32, uint64](ctx, s.set, "landed.sql", nil)
}
