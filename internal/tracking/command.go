package tracking

import (
	"time"

	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// CheckWorker holds what name callers may give themselves, if any. An item that
// one has by that of plain daemons would be given to others, because it has no
// message.
func CheckWorker(name string) error {
	if name == stream.PlainWorker {
		return &shard.Invalid{Field: "worker", Code: "reserved", Rule: "must not be " + stream.PlainWorker + ", which stands for daemons without a name"}
	}
	return shard.CheckWorker(name)
}

// Command asks for a move of one item. It names the item by ID, or by Filename
// and Shard where ID is 0.
type Command struct {
	ID       int64
	Filename string
	Shard    int32

	Generation int32         // the one that is meant; 0: whichever it is
	Worker     string        // who asks; empty: unnamed
	Lease      time.Duration // of Start: after it the item goes back; 0: never
	Delay      time.Duration // of moves to new: how long until it stands in the queue; 0: at once
	Error      string        // of Fail, Again, Release: why
	Takeover   bool          // of Start: see shard.Ask
	Has        bool          // of Start: the worker has the item already, whatever the stage's switches say by now
}

// Result is what became of a command.
type Result struct {
	ID         int64
	Filename   string
	Shard      int32
	Outcome    shard.Outcome
	Status     shard.Status // the item's now
	Generation int32        // the item's now: after Start the fence for what follows
	Attempts   int32
	Worker     string // who has started it last
	CreatedAt  time.Time
}

// Entry is an item that has become ready for a stage, and has yet to be
// announced.
type Entry struct {
	ID         int64 // of the outbox row
	Item       int64
	Stage      shard.Stage
	Generation int32
	Filename   string
	Shard      int32
	Attempts   int32
	CreatedAt  time.Time
}
