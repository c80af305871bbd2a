package queue

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// CheckWorker checks the name that a caller gives itself, if any. The name of
// plain daemons is reserved: an item that was started under it without a message
// would be given to others.
func CheckWorker(name string) error {
	if name == stream.PlainWorker {
		rule := "must not be " + stream.PlainWorker + ", which stands for daemons without a name"
		return &item.Invalid{Field: "worker", Code: "reserved", Rule: rule}
	}
	return item.CheckWorker(name)
}

// Command asks for a move of one item. It names the item by ID, or by Name and
// Part where ID is 0.
type Command struct {
	ID   int64
	Name string
	Part int32

	Generation int32         // the one that is meant; 0: whichever it is
	Worker     string        // who asks; empty: unnamed
	Lease      time.Duration // of Start: after it the item goes back; 0: never
	Delay      time.Duration // of moves to new: how long until the item is in the queue; 0: at once
	Backoff    bool          // of Again: wait as long as the queue says, if it says so, and not for Delay
	Error      string        // of Fail, Again, Release: why
	Takeover   bool          // of Start: see item.Ask
	Final      bool          // of the end of a lease: see item.Ask
	Has        bool          // of Start: the worker has the item already, whatever the queue's switches say by now
	Offered    bool          // of Start: the item has no message, and is started only if its entry leaves the outbox
	Progress   string        // of Extend: what the worker is at; empty: nothing new
	Result     []byte        // of Complete: a JSON document that is kept with the item, where its kind keeps one
	// Wait is how long an item waits that is given back after so many attempts. It is told Delay, or the wait
	// of the queue where Backoff says so; nil: as long as these.
	Wait func(attempts int32, delay time.Duration) time.Duration
	// Found is what a worker says of the row that it has completed, in a queue that uploads follow. Result goes
	// to the row then, and not to the item.
	Found *Found

	by trace.SpanContext // the request that asks, if it is traced
}

// Found is what a worker has found out about a row.
type Found struct {
	NotFound, Skipped bool
	Fault             string // the rule that the result breaks; empty: none
}

// Result is what became of a command.
type Result struct {
	ID         int64
	Name       string
	Part       int32
	Outcome    item.Outcome
	Status     item.Status // the item's now
	Generation int32       // the item's now: after Start the fencing token of what follows
	Attempts   int32
	Allowed    int32  // attempts after which it is dead; 0: any number
	Worker     string // who has started it last
	Priority   int16
	Queued     bool // it is in the queue while it is new
	CreatedAt  time.Time
	Trace      string // see stream.TraceOf; empty: nobody traces the item
	Rule       string // why an item is not brought back whose state would allow it; see Bar
}

// Change is a change of an item's state.
type Change struct {
	ID            int64
	Part          int32
	Move          item.Move
	Before, After item.State
	Command       Command // what was asked for
	// Deleted: the item is gone with its queue, and After says nothing.
	Deleted bool
}
