package funnel

import (
	"errors"

	"github.com/millrace-io/millrace/schemas/checkpoint"
)

// Checkpoint is a slot group's position in the event stream, as the bucket of
// checkpoints has it under the group's key (package slots).
type Checkpoint = checkpoint.Record[Counts]

// Counts is what a slot group keeps beside its position.
type Counts struct {
	// Known is what the group has counted, for key stores and ClickHouse to be compared
	// with.
	Known Known `json:"known,omitzero"`
	// Baseline is what the group's counts rest on.
	Baseline Baseline `json:"baseline,omitzero"`
}

// Baseline names the rows that a group's counts rest on. What was loaded under one
// baseline takes no delta of another: while ClickHouse was put back from a copy, say, the
// one has events that the other lacks.
type Baseline struct {
	Number uint64 `json:"number"` // another one for each baseline of the group
	// Accepted is how often an operator has accepted what ClickHouse has.
	Accepted uint64 `json:"accepted,omitempty"`
	// Missing is how many of the identities in Known ClickHouse was found to lack.
	Missing uint64 `json:"missing,omitempty"`
}

// Known is the identities that a group has counted up to a sequence, which is
// From, or lies before it. The zero value says nothing: there are none yet, or
// an older millrace wrote the checkpoint, or an operator has had it forgotten.
type Known struct {
	At         uint64         `json:"at"`
	Identities checkpoint.Sum `json:"identities"`
}

// Check returns an error unless the counts are those of a position.
func (c Counts) Check(from uint64) error {
	if c.Known.At > from {
		return errors.New("it knows what lies behind its position")
	}
	return nil
}

// ParseCheckpoint reads a checkpoint as the bucket has it.
func ParseCheckpoint(value []byte) (Checkpoint, error) { return checkpoint.Parse[Counts](value) }
