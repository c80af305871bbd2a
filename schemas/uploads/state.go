package uploads

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// States of a job.
const (
	Queued  = "QUEUED"  // it waits for a process
	Running = "RUNNING" // a process works on it
	Paused  = "PAUSED"
	Done    = "DONE"   // all of its items have final statuses
	Failed  = "FAILED" // nothing of it could be persisted
)

// States lists them.
var States = []string{Queued, Running, Paused, Done, Failed}

// Open tells whether a job in a state may still change by itself, or when it is resumed.
func Open(state string) bool { return state != Done && state != Failed }

// Status is that of an item. Tables have its number.
type Status int16

// The statuses. All but the first two are final.
const (
	Pending Status = iota
	Processing
	StatusDone
	Error
	NotFound
	Skipped
)

// Statuses has their names by number.
var Statuses = []string{"PENDING", "PROCESSING", "DONE", "ERROR", "NOT_FOUND", "SKIPPED"}

func (s Status) String() string {
	if s < 0 || int(s) >= len(Statuses) {
		return strconv.Itoa(int(s))
	}
	return Statuses[s]
}

// ParseStatuses reads names with commas between them. Without any it returns all.
func ParseStatuses(list string) (all []Status, err error) {
	if list == "" {
		for s := range Statuses {
			all = append(all, Status(s))
		}
		return all, nil
	}
	for name := range strings.SplitSeq(list, ",") {
		s := slices.Index(Statuses, name)
		if s < 0 {
			return nil, fmt.Errorf("must be some of %s, with commas between them", strings.Join(Statuses, ", "))
		}
		if !slices.Contains(all, Status(s)) {
			all = append(all, Status(s))
		}
	}
	return all, nil
}

// Copy is the name of the processor that makes each row its own result.
const Copy = "copy"
