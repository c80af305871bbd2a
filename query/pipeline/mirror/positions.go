package mirror

import (
	"maps"
	"slices"
	"time"

	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
)

// lagAllowed is how long a checkpoint may be ahead of what was applied before
// the delta in between counts as lost.
const lagAllowed = time.Second

// positions follow the slot groups: how far the deltas have come, and how far
// the projectors say they are.
type positions struct {
	applied map[uint32]uint64
	durable map[uint32]uint64    // by checkpoint
	behind  map[uint32]time.Time // since when durable has been ahead of applied
	// decided is the end of the batch that is under way, by checkpoint, and
	// beyond is since when applied has been beyond that.
	decided map[uint32]uint64
	beyond  map[uint32]time.Time
	// idle has the last checkpoint of each group that had caught up.
	idle map[uint32]Checkpoint
	// baseline is what each group's counts rest on.
	baseline map[uint32]funnel.Baseline
	// layout says which groups there are; empty while that is not known.
	layout slots.Layout
	moved  chan struct{} // closed and replaced when applied or durable changes
}

func newPositions() positions {
	return positions{
		applied: map[uint32]uint64{}, durable: map[uint32]uint64{},
		behind:  map[uint32]time.Time{},
		decided: map[uint32]uint64{}, beyond: map[uint32]time.Time{},
		idle: map[uint32]Checkpoint{}, baseline: map[uint32]funnel.Baseline{}, moved: make(chan struct{}),
	}
}

// tell wakes those who wait for a change.
func (p *positions) tell() {
	close(p.moved)
	p.moved = make(chan struct{})
}

// arrange takes a layout. Groups that are not known yet have nothing before
// their epoch.
func (p *positions) arrange(l slots.Layout) {
	p.layout = l
	for _, g := range l.Current() {
		if _, known := p.applied[g.ID]; !known {
			p.applied[g.ID] = g.After
		}
	}
}

// anticipated tells whether groups have been heard of before the layout that
// adds them. Without any layout there has been no cut to leave them out.
func (p *positions) anticipated(l slots.Layout) bool {
	known := len(p.layout.All())
	return known > 0 && slices.ContainsFunc(l.All(), func(g slots.Group) bool {
		_, heard := p.applied[g.ID]
		return heard && g.ID >= uint32(known)
	})
}

// step is what a delta is to the one before it.
type step int

const (
	follows step = iota
	repeats      // it has been applied
	gap          // something between is missing
)

func (p *positions) step(group uint32, from, to uint64) step {
	at, known := p.applied[group]
	switch {
	case known && to <= at:
		return repeats
	case from == at: // an unknown group has nothing before 0
		return follows
	}
	return gap
}

// follows tells whether a delta begins where a state ends that waits to be replaced.
func (p *positions) follows(s *state, d *funnel.Delta) bool {
	return s.folded[d.Group] == d.From && s.baseline[d.Group].Number == p.baseline[d.Group].Number
}

// rebase takes note of a group's baseline, and tells whether it was another one before.
func (p *positions) rebase(group uint32, b funnel.Baseline) (other bool) {
	before, known := p.baseline[group]
	p.baseline[group] = b
	return known && before.Number != b.Number
}

func (p *positions) advance(group uint32, to uint64) {
	p.applied[group] = to
	p.tell()
	if to >= p.durable[group] {
		delete(p.behind, group)
	}
}

// checkpoint notes how far a projector says it is. It returns false when
// nothing of its group was known before.
func (p *positions) checkpoint(c Checkpoint, now time.Time) (known bool) {
	group, durable := c.Group, c.Durable
	p.durable[group] = durable
	if c.Decided > 0 {
		p.decided[group] = c.Decided
	}
	p.tell()
	if c.CaughtUp > durable {
		p.idle[group] = c
	}
	if idle := p.idle[group]; idle.Durable > max(durable, c.Decided) { // of a checkpoint that is not there any more
		delete(p.idle, group)
	}
	at, known := p.applied[group]
	if !known {
		p.applied[group] = durable
		return false
	}
	if durable <= at {
		delete(p.behind, group)
	} else if _, is := p.behind[group]; !is {
		p.behind[group] = now
	}
	return true
}

// ahead tells whether something has been applied for too long that no
// checkpoint speaks of: either that was false, or a checkpoint was before.
func (p *positions) ahead(now time.Time) bool {
	found := false
	for group, applied := range p.applied {
		decided, known := p.decided[group]
		if !known || applied <= decided {
			delete(p.beyond, group)
			continue
		}
		since, before := p.beyond[group]
		if !before {
			p.beyond[group] = now
		}
		found = found || before && now.Sub(since) > lagAllowed
	}
	return found
}

// retreat goes back to what the checkpoints say, where more was applied, for a
// load of everything.
func (p *positions) retreat() {
	for group := range p.beyond {
		p.applied[group] = p.durable[group]
	}
	clear(p.beyond)
	p.tell()
}

// whole tells whether projectors have said, by a checkpoint or a delta, that the
// batches of rows that reach up to these sequences are durable.
func (p *positions) whole(rows map[uint32]uint64) bool {
	for group, seq := range rows {
		if seq > max(p.durable[group], p.applied[group]) {
			return false
		}
	}
	return true
}

// heardAny tells whether projectors have said anything.
func (p *positions) heardAny() bool { return len(p.durable) > 0 || len(p.layout.Epochs) > 0 }

// heard tells whether a group's position can be known: none is before any
// projector has begun.
func (p *positions) heard(group uint32) bool {
	_, known := p.durable[group]
	return known || len(p.layout.Epochs) > 0
}

// lost tells whether a checkpoint has been ahead for too long, which means
// that the last delta before a pause did not arrive.
func (p *positions) lost(now time.Time) bool {
	for _, since := range p.behind {
		if now.Sub(since) > lagAllowed {
			return true
		}
	}
	return false
}

// of is the position of a state that has applied so much of each group.
func (p *positions) of(folded map[uint32]uint64) Position {
	return Position{p.least(folded), p.groups(folded)}
}

// least returns the sequence up to which every group's events are in a state
// that has applied so much of each. A group whose projector has nothing left to
// fold does not hold the others back, nor one that has ended.
func (p *positions) least(folded map[uint32]uint64) uint64 {
	if len(p.layout.Epochs) > 0 {
		return p.layout.Folded(p.in(folded))
	}
	var least uint64
	first := true
	for group, seq := range folded {
		seq = p.reached(group, seq)
		if first || seq < least {
			least, first = seq, false
		}
	}
	return least
}

// in tells how far each group is in a state.
func (p *positions) in(folded map[uint32]uint64) slots.Progress {
	return func(group uint32) (uint64, bool) {
		seq, known := folded[group]
		return p.reached(group, seq), known
	}
}

// reached is how far a group is that has applied everything up to a sequence.
func (p *positions) reached(group uint32, seq uint64) uint64 {
	if idle := p.idle[group]; seq >= idle.Durable {
		return max(seq, idle.CaughtUp)
	}
	return seq
}

// groups returns how far each group is that the slots are divided among, nil
// while that is not known.
func (p *positions) groups(folded map[uint32]uint64) []uint64 {
	if len(p.layout.Epochs) == 0 {
		return nil
	}
	return p.layout.Positions(p.in(folded))
}

// landed returns how far each group is of which there are rows up to these
// sequences. A group may be further, with nothing to count.
func (p *positions) landed(rows map[uint32]uint64) []uint64 {
	if len(p.layout.Epochs) == 0 {
		return []uint64{slices.Max(append(slices.Collect(maps.Values(rows)), 0))}
	}
	return p.layout.Positions(func(group uint32) (uint64, bool) { return max(rows[group], p.durable[group]), true })
}

// catchUp is called before everything is loaded: the load will see what is
// durable now.
func (p *positions) catchUp() {
	for group, durable := range p.durable {
		if durable > p.applied[group] {
			p.applied[group] = durable
		}
	}
	clear(p.behind)
}
