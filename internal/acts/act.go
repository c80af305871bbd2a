package acts

import (
	"errors"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/recrawl"
	"github.com/millrace-io/millrace/schemas/item"
)

// Bounds of acts.
const (
	Turn  = 500       // members moved by one transaction
	Most  = 1_000_000 // members of an act
	Named = 1000      // members with each outcome whose reasons are kept
	Keep  = 90 * 24 * time.Hour
)

// What acts do.
const (
	Retry  = "retry"  // brings failed items back
	Cancel = "cancel" // ends items that have not ended
)

// States of an act.
const (
	Running  = "running"
	Finished = "finished"
	Stopped  = "stopped" // by somebody, with members left
)

// Act is the record of an act.
type Act struct {
	ID     int64      `json:"id"`
	Move   string     `json:"move" enum:"retry,cancel"`
	Filter ItemFilter `json:"filter"`
	// CrawlErrors is the filter of an act on errors of batches. Filter is empty then.
	CrawlErrors *recrawl.ErrorFilter `json:"crawl_errors,omitempty" doc:"What the action is about where it is about errors of batches; filter is empty then"`
	State       string               `json:"state" enum:"running,finished,stopped"`
	By          string               `json:"by" doc:"Whose token asked for it; empty on a server without tokens"`
	CreatedAt   time.Time            `json:"created_at"`
	EndedAt     *time.Time           `json:"ended_at,omitempty" doc:"Absent while it runs"`
	Matched     int                  `json:"matched" doc:"Its members: the items that the filter matched when it began"`
	Done        int                  `json:"done" doc:"Members that it has moved"`
	Skipped     int                  `json:"skipped" doc:"Members that had moved meanwhile, or were gone, and were left alone"`
	Failed      int                  `json:"failed" doc:"Members that could not be moved"`
	Left        int                  `json:"left" doc:"Items that are not yet processed"`
	More        bool                 `json:"more" doc:"The filter matched more than the 1,000,000 items that one act takes, the oldest of a queue first"`
}

// ActCount is what an act would be about.
type ActCount struct {
	Matched int  `json:"matched" doc:"Items that the filter matches now, at most 1,000,000"`
	More    bool `json:"more" doc:"It matches more, and an act takes these, the oldest of a queue first"`
}

// ActMember is a member of an act that was not moved.
type ActMember struct {
	Queue    string `json:"queue" doc:"Of an error of a batch: the one that it is tried again in; empty: it is gone" example:"mail"`
	ID       int64  `json:"id"`
	Key      string `json:"key,omitempty"`
	Filename string `json:"filename,omitempty" doc:"Of a shard"`
	Shard    *int32 `json:"shard,omitempty" doc:"Of a shard"`

	JobID      *string `json:"job_id,omitempty" doc:"Of an error of a batch"`
	BatchIndex *int32  `json:"batch_index,omitempty" doc:"Of an error of a batch"`
	Position   *int32  `json:"position,omitempty" doc:"Of an error of a batch"`

	Outcome string `json:"outcome" enum:"skipped,failed"`
	Reason  string `json:"reason" example:"is started"`
}

// ErrNoAct is the error of an act that does not exist, or is kept no longer.
var ErrNoAct = errors.New("there is no such act")

// Missing is the rule that callers break who name one.
const Missing = "must be an act that is kept"

// ErrKeyTaken is the error of a request with the key of another request.
var ErrKeyTaken = errors.New("the key is that of another request")

// ofErrors stands in the place of a queue where members are errors of batches.
const ofErrors queue.ID = -1

// moves are those that acts make.
var moves = map[string]item.Move{Retry: item.Retry, Cancel: item.Cancel}
