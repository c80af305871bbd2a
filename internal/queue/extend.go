package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/schemas/item"
)

// Extend makes leases end Lease from now on (0: never, as those of plain daemons), each for the caller that has the
// item: by generation, or by worker where no generation is given, and notes what the
// caller says that it is at. It says of each whether the lease was extended. Calls that come at the same time share a
// statement.
func (s *Store) Extend(ctx context.Context, q ID, commands []Command) ([]bool, error) {
	if slices.ContainsFunc(commands, unnumbered) {
		return s.extend(ctx, q, commands)
	}
	return s.leases.Do(ctx, q, commands)
}

func (s *Store) extend(ctx context.Context, q ID, commands []Command) ([]bool, error) {
	kind, err := s.kindOf(q)
	if err != nil {
		return nil, err
	}
	n := len(commands)
	ids, names, parts := make([]int64, n), make([]string, n), make([]int32, n)
	generations, workers, leases, progress := make([]int32, n), make([]string, n), make([]int64, n), make([]string, n)
	for i, c := range commands {
		ids[i], names[i], parts[i] = c.ID, c.Name, c.Part
		generations[i], workers[i], leases[i], progress[i] = c.Generation, c.Worker, c.Lease.Milliseconds(), c.Progress
	}
	rows, err := s.pool.Query(ctx, kind.Statements(q).extend, q, ids, names, parts, generations, workers, leases,
		progress)
	if err != nil {
		return nil, fmt.Errorf("extend %d leases of queue %d: %w", n, q, err)
	}
	extended := make([]bool, n)
	var place int
	_, err = pgx.ForEachRow(rows, []any{&place}, func() error {
		extended[place-1] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("extend %d leases of queue %d: %w", n, q, err)
	}
	return extended, nil
}

// Renew is Extend, and says of each item how it is then: its lease was extended (Changed),
// another worker holds it or it has ended (Fenced), or there is none (NotFound).
func (s *Store) Renew(ctx context.Context, q ID, commands []Command) ([]Result, error) {
	extended, err := s.Extend(ctx, q, commands)
	if err != nil {
		return nil, err
	}
	results, err := s.Look(ctx, q, commands)
	for i := range results {
		switch {
		case results[i].Outcome == item.NotFound:
		case extended[i]:
			results[i].Outcome = item.Changed
		default:
			results[i].Outcome = item.Fenced
		}
	}
	return results, err
}

// Look returns items as they are now, with the outcome Repeated, or NotFound.
func (s *Store) Look(ctx context.Context, q ID, commands []Command) ([]Result, error) {
	kind, err := s.kindOf(q)
	if err != nil {
		return nil, err
	}
	var rows []row
	var b pgx.Batch
	selectCommands(&b, &rows, kind.Statements(q), commands, "")
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return nil, fmt.Errorf("look at %d items of queue %d: %w", len(commands), q, err)
	}
	find := finder(rows, commands)
	results := make([]Result, len(commands))
	for i, c := range commands {
		if r := find(c); r != nil {
			results[i] = r.result(item.Repeated)
		} else {
			results[i] = Result{ID: c.ID, Name: c.Name, Part: c.Part, Outcome: item.NotFound}
		}
	}
	return results, nil
}
