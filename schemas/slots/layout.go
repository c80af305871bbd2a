package slots

import (
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/schemas/stream"
)

// Key is where the bucket of checkpoints has the layout.
const Key = "layout"

// ErrUnderWay is the error of asking for a change while another one is not
// complete.
var ErrUnderWay = errors.New("the slot groups are being changed")

// Epoch is a number of groups that share the slots from one sequence on.
type Epoch struct {
	First  uint32 `json:"first"`  // id of its first group; the others follow
	Groups uint32 `json:"groups"` // how many it has
	After  uint64 `json:"after"`  // it begins behind this sequence
}

// Layout says which groups there are. The zero value is a layout that has not been
// decided yet. Methods that change a layout return another one.
type Layout struct {
	Epochs []Epoch
	// Next is how many groups have been asked for, while it is not yet known
	// where they begin; else 0.
	Next uint32
}

// New returns the layout of an installation that begins with so many groups.
func New(groups uint32) (Layout, error) {
	l := Layout{Epochs: []Epoch{{Groups: groups}}}
	return l, l.check()
}

// Current returns the groups of the last epoch.
func (l Layout) Current() []Group { return l.groups(len(l.Epochs) - 1) }

// Previous returns the groups of the epoch before the last, none when there is
// none. All earlier ones have ended (invariant 4).
func (l Layout) Previous() []Group { return l.groups(len(l.Epochs) - 2) }

// All returns the groups of every epoch, in the order of their ids.
func (l Layout) All() (all []Group) {
	for i := range l.Epochs {
		all = append(all, l.groups(i)...)
	}
	return all
}

func (l Layout) groups(epoch int) []Group {
	if epoch < 0 {
		return nil
	}
	e := l.Epochs[epoch]
	groups := make([]Group, e.Groups)
	for i := range groups {
		groups[i] = Group{ID: e.First + uint32(i), Number: uint32(i), Of: e.Groups, After: e.After}
		if epoch+1 < len(l.Epochs) {
			groups[i].Upto = l.Epochs[epoch+1].After
		}
	}
	return groups
}

// Ask returns the layout in which a change to so many groups has been asked
// for. It does not know whether the groups before the last epoch have ended.
func (l Layout) Ask(groups uint32) (Layout, error) {
	if l.Next > 0 {
		return l, fmt.Errorf("%w, to %d", ErrUnderWay, l.Next)
	}
	asked := Layout{Epochs: l.Epochs, Next: groups}
	if groups == 0 {
		return l, errNumber(groups)
	}
	return asked, asked.check()
}

// Cut returns the layout in which the groups that have been asked for begin
// behind a sequence (invariant 2).
func (l Layout) Cut(after uint64) (Layout, error) {
	last := l.Epochs[len(l.Epochs)-1]
	cut := Layout{Epochs: append(l.Epochs[:len(l.Epochs):len(l.Epochs)], Epoch{
		First: last.First + last.Groups, Groups: l.Next, After: after,
	})}
	return cut, cut.check()
}

// Progress returns the sequence up to which a group is folded, and whether that is
// known.
type Progress func(id uint32) (seq uint64, known bool)

// Left returns those groups of the epoch before the last that have not ended.
func (l Layout) Left(at Progress) (left []Group) {
	for _, g := range l.Previous() {
		if l.Reached(g, at) < g.Upto {
			left = append(left, g)
		}
	}
	return left
}

// Folded returns the sequence up to which all groups are folded.
func (l Layout) Folded(at Progress) uint64 {
	groups := l.Left(at)
	if len(groups) == 0 {
		groups = l.Current()
	}
	var least uint64
	for i, g := range groups {
		if seq := l.Reached(g, at); i == 0 || seq < least {
			least = seq
		}
	}
	return least
}

// Positions returns the sequences up to which the slots are folded: place i is for
// the slots that leave the remainder i when they are divided by the number of places.
func (l Layout) Positions(at Progress) []uint64 {
	groups := l.Current()
	if len(l.Left(at)) > 0 {
		groups = l.Previous()
	}
	positions := make([]uint64, len(groups))
	for i, g := range groups {
		positions[i] = l.Reached(g, at)
	}
	return positions
}

// Reached is the sequence up to which a group is folded, within the bounds of its
// epoch.
func (Layout) Reached(g Group, at Progress) uint64 {
	seq, known := at(g.ID)
	if !known || seq < g.After {
		return g.After
	}
	if g.Upto > 0 {
		return min(seq, g.Upto)
	}
	return seq
}

// check holds what every layout has to be.
func (l Layout) check() error {
	var first uint64
	for i, e := range l.Epochs {
		switch {
		case e.Groups == 0 || e.Groups > stream.Slots:
			return errNumber(e.Groups)
		case uint64(e.First) != first:
			return fmt.Errorf("epoch %d begins with group %d, and not %d", i, e.First, first)
		case i == 0 && e.After != 0, i > 0 && e.After < l.Epochs[i-1].After:
			return fmt.Errorf("epoch %d begins behind %d", i, e.After)
		}
		if first += uint64(e.Groups); first > 1<<31 {
			return errors.New("there have been too many groups")
		}
	}
	switch {
	case len(l.Epochs) == 0:
		return errors.New("there is no epoch")
	case l.Next > stream.Slots:
		return errNumber(l.Next)
	}
	return nil
}

func errNumber(groups uint32) error {
	return fmt.Errorf("%d slot groups: there are %d slots, and at least one group", groups, stream.Slots)
}
