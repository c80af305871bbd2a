package shard

import "strings"

// Stage is one of the four stages, in their order.
type Stage int16

// The stages. EventIngest makes the file, the others have queues.
const (
	EventIngest Stage = iota
	Splitter
	Worker
	Sender
)

var stageNames = [...]string{"event-ingest", "shard-splitter", "shard-worker", "mysql-sender"}

// Queues are the stages whose items are handed out.
var Queues = [...]Stage{Splitter, Worker, Sender}

// String is the stage's name in paths and subjects: shard-worker.
func (s Stage) String() string { return stageNames[s] }

// Column is the stage's name in columns and documents: shard_worker.
func (s Stage) Column() string { return strings.ReplaceAll(stageNames[s], "-", "_") }

// HasQueue tells whether items of the stage are handed out.
func (s Stage) HasQueue() bool { return s >= Splitter && s <= Sender }

// Next is the stage after this one; there is none after the last.
func (s Stage) Next() (Stage, bool) { return s + 1, s < Sender }

// ParseStage finds a stage by its name in paths.
func ParseStage(name string) (Stage, bool) {
	for i, n := range stageNames {
		if n == name {
			return Stage(i), true
		}
	}
	return 0, false
}

// Status is where an item is at a stage.
type Status int16

// The statuses.
const (
	New Status = iota
	Started
	Done
	Failed
)

var statusNames = [...]string{"new", "started", "done", "failed"}

func (s Status) String() string { return statusNames[s] }

// ParseStatus finds a status by its name.
func ParseStatus(name string) (Status, bool) {
	for i, n := range statusNames {
		if n == name {
			return Status(i), true
		}
	}
	return 0, false
}

// Move is what is asked to happen to an item at a stage.
type Move int16

// The moves.
const (
	Start    Move = iota // new → started
	Complete             // started → done
	Fail                 // new, started → failed
	Retry                // failed → new
	Release              // started → new, given back: the attempt does not count
	Again                // started → new, tried in vain; failed when no attempt is left
	Expire               // as Again, by the end of a lease
	Cancel               // new, started → failed, for good
	Register             // the item comes to be
)

var moveNames = [...]string{"start", "done", "fail", "retry", "release", "again", "expire", "cancel", "register"}

// String is the move's name in paths and in the history.
func (m Move) String() string { return moveNames[m] }
