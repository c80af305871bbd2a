package store

import (
	"context"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/millrace-io/millrace/query/reads"
)

// Article is an article on its way.
type Article struct {
	Hash, URL, Source, Trace string
	ReachedAt                time.Time // when it first reached the stage that was asked for
	LastAt                   time.Time // of its last event, or of the second stage
	Events                   uint64
	Took                     time.Duration // between two stages
}

// ID is the first 64 bits of the article's hash.
func (a Article) ID() uint64 {
	id, _ := strconv.ParseUint(a.Hash[:16], 16, 64) // the database wrote it
	return id
}

// ArticleCursor is an article's place in the order of pages: a time or a
// duration in nanoseconds, and the first 64 bits of the hash.
type ArticleCursor struct {
	At int64
	ID uint64
}

// Stuck returns a page of the articles that first reached a stage within
// [From, To] of the scope and no stage after it, the longest stuck first.
func (s *Store) Stuck(
	ctx context.Context, c Scope, stage string, later []string, after ArticleCursor, limit int,
) ([]Article, error) {
	p := c.params(reads.Params{
		"stage": stage, "stages": append([]string{stage}, later...), "after": after.At, "after_id": after.ID,
		"limit": limit,
	})
	return reads.Rows(ctx, s.set, "stuck.sql", p, func(rows driver.Rows) (a Article, err error) {
		err = rows.Scan(&a.Hash, &a.URL, &a.Source, &a.Trace, &a.ReachedAt, &a.LastAt, &a.Events)
		return a.utc(), err
	})
}

// Slowest returns a page of the articles of a scope by the time that they took
// from a stage to another, the slowest first.
func (s *Store) Slowest(
	ctx context.Context, c Scope, stage, until string, after ArticleCursor, limit int,
) ([]Article, error) {
	p := c.params(
		reads.Params{"stage": stage, "until": until, "after": after.At, "after_id": after.ID, "limit": limit},
	)
	return reads.Rows(ctx, s.set, "slowest.sql", p, func(rows driver.Rows) (a Article, err error) {
		var took int64
		err = rows.Scan(&a.Hash, &a.URL, &a.Source, &a.Trace, &a.ReachedAt, &a.LastAt, &took)
		a.Took = time.Duration(took)
		return a.utc(), err
	})
}

func (a Article) utc() Article {
	a.ReachedAt, a.LastAt = a.ReachedAt.UTC(), a.LastAt.UTC()
	return a
}
