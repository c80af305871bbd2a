package acts

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/queue"
)

// Subject is what acts can be about. A system gives one to have its own rows moved by filters.
type Subject interface {
	// Name is that of the subject in records of acts.
	Name() string
	// Each calls add with each member that the filter of an order matches now, the oldest
	// first and those of a part together, until add returns an error, which it returns.
	Each(ctx context.Context, o Order, add func(Member) error) error
	// Take moves the members of a turn, which are of one part, in the transaction. It returns
	// what became of each, in their order.
	Take(ctx context.Context, t *queue.Tx, a Act, members []Member) ([]Result, error)
	// Describe returns what callers are told of members, as an object of JSON for each;
	// nil: the member is not shown.
	Describe(ctx context.Context, members []Member) ([]json.RawMessage, error)
}

// Asking is a subject whose requests have members of their own.
type Asking interface {
	// Asked returns a struct with the fields Move and Filter that a request has which begins an act.
	Asked() any
}

// Tx is a transaction, or a connection in one, as queue.Tx.Conn returns it.
type Tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
}

// Member names a member of an act.
type Member struct {
	ID         string
	Part       int16 // of the subject, such as the queue of an item; a turn is about one
	Generation int32 // that it had when it was found; 0 where its subject has none
}

// Outcomes of members.
const (
	Done    = "done"
	Skipped = "skipped"
	Failed  = "failed"
)

// Result is what became of a member, and why it was not moved.
type Result struct{ Outcome, Reason string }

// Gone is the result of a member that does not exist any more.
var Gone = Result{Skipped, "is gone"}

// Unmatched is the result of a member that has changed since it was found.
var Unmatched = Result{Skipped, "does not match the filter any more"}

// FilterOf reads the filter of an order.
func FilterOf[F any](o Order) (f F, err error) {
	if err := json.Unmarshal(o.Filter, &f); err != nil {
		return f, fmt.Errorf("read a filter of %s: %w", o.Subject, err)
	}
	return f, nil
}

// EachUUID answers Subject.Each with the ids that a query selects.
func EachUUID(ctx context.Context, tx Tx, add func(Member) error, query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error { return add(Member{ID: id.String()}) })
	return err
}

// Numbers are the ids of members that numbers name.
func Numbers(members []Member) ([]int64, error) {
	return parsed(members, func(id string) (int64, error) { return strconv.ParseInt(id, 10, 64) })
}

// UUIDs are the ids of members that UUIDs name.
func UUIDs(members []Member) ([]uuid.UUID, error) { return parsed(members, uuid.Parse) }

func parsed[T any](members []Member, parse func(string) (T, error)) (ids []T, err error) {
	ids = make([]T, len(members))
	for i, m := range members {
		if ids[i], err = parse(m.ID); err != nil {
			return nil, fmt.Errorf("read the members of an act: %w", err)
		}
	}
	return ids, nil
}

// Described answers Subject.Describe by a query on ids and parts, which are $1 and $2 and which
// it casts. Its rows are the place of a member, from 1, and the object; members without one are
// not shown.
func Described(ctx context.Context, pool *pgxpool.Pool, query string, members []Member) ([]json.RawMessage, error) {
	ids, parts := make([]string, len(members)), make([]int16, len(members))
	for i, m := range members {
		ids[i], parts[i] = m.ID, m.Part
	}
	all := make([]json.RawMessage, len(members))
	rows, err := pool.Query(ctx, query, ids, parts)
	if err != nil {
		return nil, err
	}
	var place int
	var object []byte
	_, err = pgx.ForEachRow(rows, []any{&place, &object}, func() error {
		all[place-1] = object
		return nil
	})
	return all, err
}

// Matching returns those members of a turn that a filter still matches, and what becomes of
// each member if these are moved. The caller has locked them. The rows of the query are the ids
// of members that exist, and whether the filter matches.
func Matching(
	ctx context.Context, tx Tx, ids []uuid.UUID, query string, args ...any,
) (matching []uuid.UUID, results []Result, err error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	found := map[uuid.UUID]Result{}
	var id uuid.UUID
	var matches bool
	_, err = pgx.ForEachRow(rows, []any{&id, &matches}, func() error {
		if found[id] = Unmatched; matches {
			found[id] = Result{Outcome: Done}
			matching = append(matching, id)
		}
		return nil
	})
	for _, id := range ids {
		result, there := found[id]
		if !there {
			result = Gone
		}
		results = append(results, result)
	}
	return matching, results, err
}
