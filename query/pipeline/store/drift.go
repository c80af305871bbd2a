package store

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
)

// Version is what a model version has classified.
type Version struct {
	Name     string
	Articles uint64
	Mean     *float64          // of the quality scores; nil without one
	Topics   map[string]uint64 // articles
}

// maxTopics bounds the topics of a version.
const maxTopics = 1000

// Versions lists what the model versions of a scope have classified, the limit
// newest first, each with its maxTopics largest topics; for one article of
// sample.
func (s *Store) Versions(ctx context.Context, c Scope, r Roles, sample uint32, limit int) ([]Version, error) {
	p := c.params(reads.Params{"classify": r.Classify, "sample": sample, "limit": limit})
	out, err := reads.Rows(ctx, s.set, "versions.sql", p, func(rows driver.Rows) (v Version, err error) {
		v.Topics = map[string]uint64{}
		err = rows.Scan(&v.Name, &v.Articles, &v.Mean)
		return v, err
	})
	if err != nil {
		return nil, err
	}
	places := map[string]int{}
	for i, v := range out {
		places[v.Name] = i
	}
	p["limit"] = maxTopics
	err = s.set.Each(ctx, "version_topics.sql", p, func(rows driver.Rows) error {
		var version, topic string
		var n uint64
		if err := rows.Scan(&version, &topic, &n); err != nil {
			return err
		}
		if i, listed := places[version]; listed {
			out[i].Topics[topic] = n
		}
		return nil
	})
	return out, err
}

// FirstSeen returns the time of each model version's earliest event; the
// beginning of its day where that is retired, of its month where the summaries
// by day are dropped.
func (s *Store) FirstSeen(ctx context.Context, r Roles, cut Cut) (map[string]time.Time, error) {
	p := cut.params()
	p["classify"] = r.Classify
	ages, err := reads.Map[string, time.Time](ctx, s.set, "version_ages.sql", p)
	for version, at := range ages {
		ages[version] = at.UTC()
	}
	return ages, err
}

// SampleSize returns how many classifications of a model version a scope has,
// and the mean of their quality scores. An empty version is any.
func (s *Store) SampleSize(
	ctx context.Context, c Scope, r Roles, version string,
) (n uint64, mean *float64, err error) {
	p := c.params(reads.Params{"classify": r.Classify, "version": version})
	err = s.set.Each(ctx, "sample_size.sql", p, func(rows driver.Rows) error { return rows.Scan(&n, &mean) })
	return n, mean, err
}

// SampleTopics returns, for one article of sample, how many articles a version
// has classified, and how many of them by topic, the limit largest.
func (s *Store) SampleTopics(
	ctx context.Context, c Scope, r Roles, version string, sample uint32, limit int,
) (articles uint64, topics map[string]uint64, err error) {
	p := c.params(reads.Params{"classify": r.Classify, "version": version, "sample": sample, "limit": limit + 1})
	topics, err = reads.Map[string, uint64](ctx, s.set, "sample_topics.sql", p)
	articles = topics[""]
	delete(topics, "")
	return articles, topics, err
}

// SampleScores returns how often each quality score occurs among the
// classifications of a version, for one article of sample.
func (s *Store) SampleScores(
	ctx context.Context, c Scope, r Roles, version string, sample uint32,
) (map[float64]uint64, error) {
	p := c.params(reads.Params{"classify": r.Classify, "version": version, "sample": sample})
	return reads.Map[float64, uint64](ctx, s.set, "sample_scores.sql", p)
}
