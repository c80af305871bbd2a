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
	var out []Version
	err := s.set.Each(ctx, "versions.sql", p, func(rows driver.Rows) error {
		v := Version{Topics: map[string]uint64{}}
		err := rows.Scan(&v.Name, &v.Articles, &v.Mean)
		out = append(out, v)
		return err
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
	out := map[string]time.Time{}
	p := cut.params()
	p["classify"] = r.Classify
	err := s.set.Each(ctx, "version_ages.sql", p, func(rows driver.Rows) error {
		var version string
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return err
		}
		out[version] = at.UTC()
		return nil
	})
	return out, err
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
	topics = map[string]uint64{}
	p := c.params(reads.Params{"classify": r.Classify, "version": version, "sample": sample, "limit": limit + 1})
	err = s.set.Each(ctx, "sample_topics.sql", p, func(rows driver.Rows) error {
		var topic string
		var n uint64
		if err := rows.Scan(&topic, &n); err != nil {
			return err
		}
		topics[topic] = n
		return nil
	})
	articles = topics[""]
	delete(topics, "")
	return articles, topics, err
}

// SampleScores returns how often each quality score occurs among the
// classifications of a version, for one article of sample.
func (s *Store) SampleScores(
	ctx context.Context, c Scope, r Roles, version string, sample uint32,
) (map[float64]uint64, error) {
	out := map[float64]uint64{}
	p := c.params(reads.Params{"classify": r.Classify, "version": version, "sample": sample})
	err := s.set.Each(ctx, "sample_scores.sql", p, func(rows driver.Rows) error {
		var score float64
		var n uint64
		if err := rows.Scan(&score, &n); err != nil {
			return err
		}
		out[score] = n
		return nil
	})
	return out, err
}
