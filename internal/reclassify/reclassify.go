package reclassify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/schemas/batches"
	"github.com/millrace-io/millrace/schemas/clickhouse"
)

// atOnce is how many jobs or codes one statement changes.
const atOnce = 1000

// Deps are what a Store works with. The connections are the caller's.
type Deps struct {
	Postgres   *pgxpool.Pool
	ClickHouse driver.Conn
	Topology   clickhouse.Topology // of the tables in ClickHouse
}

// Store computes projects and categories of stored batches again. It is safe for concurrent use.
type Store struct {
	deps     Deps
	project  func(job string) string
	category func(code string) batches.Category
}

// New returns the store, and starts nothing.
func New(deps Deps) (*Store, error) {
	if deps.Postgres == nil || deps.ClickHouse == nil {
		return nil, errors.New("reclassify: Postgres and ClickHouse are needed")
	}
	return &Store{deps, batches.ProjectOf, batches.CategoryOf}, nil
}

// Change has the stored value of a job or an error code, and the value by the present rules.
type Change struct {
	Of   string // a job, or an error code
	From string // empty: no project
	To   string
	Rows int64 // outcomes of items; of what Postgres alone has, batches or errors
}

// Found is what differs from the present rules.
type Found struct {
	Projects   []Change // of jobs
	Categories []Change // of codes
}

// Run finds what differs, and changes it unless dry says not to. The result is what it found.
func (s *Store) Run(ctx context.Context, dry bool) (f Found, err error) {
	if f.Projects, err = s.find(ctx, jobs, s.project); err != nil {
		return f, err
	}
	f.Categories, err = s.find(ctx, codes, func(code string) string { return string(s.category(code)) })
	if err != nil || dry {
		return f, err
	}
	if err := s.apply(ctx, jobs, f.Projects); err != nil {
		return f, err
	}
	return f, s.apply(ctx, codes, f.Categories)
}

// find returns the values of a kind that differ from what the rule says, those of most rows first.
func (s *Store) find(ctx context.Context, k kind, rule func(string) string) ([]Change, error) {
	type key struct{ of, from string }
	wrong := map[key]*Change{}
	for _, t := range k.tables {
		inTable := map[key]int64{}
		err := s.each(ctx, t, func(of, from string, rows int64) {
			if to := rule(of); to != from {
				inTable[key{of, from}] += rows
			}
		})
		if err != nil {
			return nil, fmt.Errorf("look for a %s in %s: %w", k.column, t.name, err)
		}
		for k, rows := range inTable {
			if wrong[k] == nil {
				wrong[k] = &Change{Of: k.of, From: k.from, To: rule(k.of)}
			}
			wrong[k].Rows = max(wrong[k].Rows, rows)
		}
	}
	all := make([]Change, 0, len(wrong))
	for _, c := range wrong {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b Change) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Of, b.Of), cmp.Compare(a.From, b.From))
	})
	return all, nil
}

// apply stores the changes in all tables of a kind.
func (s *Store) apply(ctx context.Context, k kind, changes []Change) error {
	for some := range slices.Chunk(changes, atOnce) {
		of, to := make([]string, len(some)), make([]string, len(some))
		for i, c := range some {
			of[i], to[i] = c.Of, c.To
		}
		for _, t := range k.tables {
			if err := s.change(ctx, t, of, to); err != nil {
				return fmt.Errorf("change the %s in %s: %w", k.column, t.name, err)
			}
		}
	}
	return nil
}
