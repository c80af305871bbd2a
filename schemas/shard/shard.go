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
