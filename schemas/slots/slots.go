// Package slots divides the slots of the event stream among slot groups, which
// projectors fold, and says how that changes over time.
//
// A layout is a list of epochs. Each has some groups, of which every one has an
// equal share of the slots, and holds for the messages behind one sequence of
// the stream, up to where the next epoch begins. Groups are numbered through
// all epochs, so that no two have an id in common: what one leaves in the views
// stays its own, and the rows of all groups, ended ones too, add up.
//
// # Changing the number of groups
//
// The tests cite these invariants by their numbers.
//
//  1. One owner. Every sequence and subject belongs to exactly one group of a
//     layout, whatever it has been through: epochs are added behind all that has
//     been folded, and nothing of a layout changes but that.
//  2. Asked for, then cut. A change is asked for by one compare-and-swap of the
//     layout. Then every group of the epoch is closed, by compare-and-swap of
//     its position: who folds it can decide no further batch. When all are
//     closed, none has decided anything behind the largest position of them,
//     which is the cut: the new epoch is added behind it.
//  3. Up to the cut, then ended. Whoever takes a closed group folds it up to the
//     cut and no further.
//  4. One after the other. A group of an epoch is taken only when all groups of
//     the epoch before have ended, that is when everything up to the cut has
//     every effect: so its key store, filled from the events table, knows every
//     identity that was counted before it. The next change can be asked for only
//     then.
//  5. Whoever comes by. Each step is found undone or done by what is written, by
//     any projector: one that dies leaves nothing to clean up, and who asked
//     need not stay.
package slots

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Group is one of the slot groups of an epoch: the slots that leave the
// remainder Number when they are divided by Of.
type Group struct {
	ID         uint32 // its own among the groups of all epochs
	Number, Of uint32
	After      uint64 // it has messages behind this sequence only
	// Upto is the last sequence that it has, where an epoch has come after its
	// own; 0: it goes on.
	Upto uint64
}

const groupKeys = "funnel."

// Keys matches the keys of all groups' positions in the bucket of checkpoints.
const Keys = groupKeys + "*"

// Key is where the bucket of checkpoints has the group's position.
func (g Group) Key() string { return fmt.Sprint(groupKeys, g.ID) }

// ParseKey returns the id of the group that a key belongs to; false for keys of
// something else.
func ParseKey(key string) (id uint32, ok bool) {
	number, found := strings.CutPrefix(key, groupKeys)
	n, err := strconv.ParseUint(number, 10, 32)
	return uint32(n), found && err == nil
}

// Filters returns the subjects that the group has to read, or nil for all of
// them. Group 0 of an epoch reads everything: subjects that have no slot are
// its. So does a group that is to end: the message at its end may be another's.
func (g Group) Filters() []string {
	if g.Number == 0 || g.Upto > 0 {
		return nil
	}
	return g.Subjects()
}

// Subjects returns the subjects of the group's slots, or nil for all of them.
func (g Group) Subjects() (subjects []string) {
	if g.Of == 1 {
		return nil
	}
	for slot := g.Number; slot < stream.Slots; slot += g.Of {
		subjects = append(subjects, stream.SlotSubjects(byte(slot)))
	}
	return subjects
}

// Owns tells whether messages of a subject are the group's, within its epoch.
// It does not allocate.
func (g Group) Owns(subject string) bool {
	if g.Of == 1 {
		return true
	}
	slot, ok := stream.SubjectSlot(subject)
	if !ok {
		return g.Number == 0
	}
	return uint32(slot)%g.Of == g.Number
}
