package queue

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/schemas/item"
)

// ID is the number of a queue.
type ID int16

// FirstOwn is the number from which on queues are user-defined.
const FirstOwn ID = 100

// Ref names one readiness of an item in a queue.
type Ref struct {
	Item       int64
	Queue      ID
	Generation int32
}

// Member is an item that a selection has found.
type Member struct {
	Ref
	Error string    // its last one
	At    time.Time // when it changed last
}

// Kind is a kind of items. It says where their state rests and what their
// messages say. An item has one number among the items of all kinds.
type Kind interface {
	// Holds tells whether the items of a queue are of this kind.
	Holds(q ID) bool
	// Statements returns the statements on the items of a queue.
	Statements(q ID) *Statements
	// Bodies returns what the messages about items of this kind say, in the
	// order of refs. A body is nil if its item is not ready in that generation.
	Bodies(ctx context.Context, pool *pgxpool.Pool, refs []Ref) ([][]byte, error)
	// Follow queues what else follows from changes, in their transaction. add
	// adds to a counter.
	Follow(b *pgx.Batch, q ID, move item.Move, changes []Change, add func(kind int32, key int32, n int64))
}

// EachMember calls each with every row of a query for item, queue, generation,
// error and time, until there are no more or it returns an error.
func EachMember(rows pgx.Rows, each func(Member) error) error {
	var m Member
	_, err := pgx.ForEachRow(rows, []any{&m.Item, &m.Queue, &m.Generation, &m.Error, &m.At},
		func() error { return each(m) })
	return err
}

// Statements read and write the state of the items of one queue.
type Statements struct {
	// Lock selects the columns of a row, see scanRow, from a table t. It ends
	// with a condition, to which more is added, and a lock.
	Lock string
	// Find selects id and worker of the item that u (id, name, part) names.
	Find string
	// Write writes any changes: the arguments are ids, statuses, generations,
	// attempts, allowed attempts, workers, errors, and whether they are starts.
	Write string
	// Start and Done write the usual changes, with less to say: ids, and with
	// Start the worker. Empty: Write is used.
	Start, Done string
	// Limits selects id, group and key of items of the queue $1 by their ids $2;
	// empty texts where an item has none. Empty: the items have neither, and their
	// queue has no limits but those that Start and the consumer hold.
	Limits string
	// StatusOnly: nothing is handed out here. Items have a status and nothing
	// else, and Write takes ids and statuses.
	StatusOnly bool
	// Name is what traces call such a queue, which has no settings to have one.
	Name string

	expire, due, extend                     string
	lockGroups, groupRoom, slotsOut, unpark string
	keyStarted, keyDue                      string
}

// Prepare completes statements. A kind calls it once for each.
func (s Statements) Prepare() *Statements {
	within := func(name string) string { return strings.ReplaceAll(text(name), "{lock}", s.Lock) }
	// These lock rows that one of the small tables names. The lock is within,
	// one row at a time, so that Postgres cannot begin with the large table,
	// whatever its statistics say.
	s.expire, s.due = within("expire"), within("due")
	limits := func(name string) string { return strings.ReplaceAll(text(name), "{limits}", s.Limits) }
	s.lockGroups, s.groupRoom, s.slotsOut, s.unpark = limits("lock_groups"), limits("group_room"), limits("slots_out"),
		limits("unpark")
	s.keyStarted, s.keyDue = limits("key_started"), limits("key_due")
	s.extend = strings.ReplaceAll(text("extend"), "{find}", s.Find)
	return &s
}
