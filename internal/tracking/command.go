package tracking

import (
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/shard"
)

// CheckWorker checks the name that a caller gives itself, if any.
func CheckWorker(name string) error { return queue.CheckWorker(name) }

// Command asks for a move of one item. It names the item by ID, or by Filename
// and Shard where ID is 0. The other fields are those of queue.Command.
type Command struct {
	ID       int64
	Filename string
	Shard    int32

	Generation int32
	Worker     string
	Lease      time.Duration
	Delay      time.Duration
	Error      string
	Takeover   bool
	Has        bool
}

// Result is what became of a command. Its fields are those of queue.Result.
type Result struct {
	ID         int64
	Filename   string
	Shard      int32
	Outcome    shard.Outcome
	Status     shard.Status
	Generation int32
	Attempts   int32
	Worker     string
	CreatedAt  time.Time
}

// Commands are commands to the queues.
func Commands(commands []Command) []queue.Command {
	out := make([]queue.Command, len(commands))
	for i, c := range commands {
		out[i] = queue.Command{
			ID: c.ID, Name: c.Filename, Part: c.Shard, Generation: c.Generation, Worker: c.Worker,
			Lease: c.Lease, Delay: c.Delay, Error: c.Error, Takeover: c.Takeover, Has: c.Has,
		}
	}
	return out
}

// Results are results of the queues.
func Results(results []queue.Result) []Result {
	if results == nil {
		return nil
	}
	out := make([]Result, len(results))
	for i, r := range results {
		out[i] = result(r)
	}
	return out
}

func result(r queue.Result) Result {
	return Result{
		ID: r.ID, Filename: r.Name, Shard: r.Part, Outcome: r.Outcome, Status: r.Status,
		Generation: r.Generation, Attempts: r.Attempts, Worker: r.Worker, CreatedAt: r.CreatedAt,
	}
}
