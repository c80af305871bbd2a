package acts

import (
	"encoding/json"
	"errors"
	"time"
)

// Bounds of acts.
const (
	Turn  = 500       // members moved by one transaction
	Most  = 1_000_000 // members of an act
	Named = 1000      // members with each outcome whose reasons are kept
	Keep  = 90 * 24 * time.Hour
)

// States of an act.
const (
	Running  = "running"
	Finished = "finished"
	Stopped  = "stopped" // by somebody, with members left
)

// Order is what an act does, and to what.
type Order struct {
	Subject   string          `json:"subject" example:"items" doc:"What its members are: items of queues, crawl_errors, sources or jobs"`
	Move      string          `json:"move" example:"retry" doc:"What is done to each"`
	Filter    json.RawMessage `json:"filter" doc:"What selected its members, as the request had it; {} where that is an upload or a private group of somebody else"`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"What else the request gave: the reason, the settings of an override"`
	By        string          `json:"by" doc:"Whose token asked for it; empty on a server without tokens"`
}

// Act is the record of an act.
type Act struct {
	ID int64 `json:"id"`
	Order
	State     string     `json:"state" enum:"running,finished,stopped"`
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty" doc:"Absent while it runs"`
	Matched   int        `json:"matched" doc:"Its members: what the filter matched when it began"`
	Done      int        `json:"done" doc:"Members that it has moved, or that were as it was to make them"`
	Skipped   int        `json:"skipped" doc:"Members that had moved meanwhile, or were gone, and were left alone"`
	Failed    int        `json:"failed" doc:"Members that could not be moved"`
	Left      int        `json:"left" doc:"Members that are not yet processed"`
	More      bool       `json:"more" doc:"The filter matched more than the 1,000,000 members that one act takes, the oldest first"`
}

// ActCount is what an act would be about.
type ActCount struct {
	Matched int  `json:"matched" doc:"What the filter matches now, at most 1,000,000"`
	More    bool `json:"more" doc:"It matches more, and an act takes these, the oldest of a queue first"`
}

// ErrNoAct is the error of an act that does not exist, or is kept no longer.
var ErrNoAct = errors.New("there is no such act")

// Missing is the rule that callers break who name one.
const Missing = "must be an act that is kept"

// ErrKeyTaken is the error of a request with the key of another request.
var ErrKeyTaken = errors.New("the key is that of another request")
