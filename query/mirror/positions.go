package mirror

import "time"

// lagAllowed is how long a checkpoint may be ahead of what was applied before
// the delta in between counts as lost.
const lagAllowed = time.Second

// positions follow the slot groups: how far the deltas have come, and how far
// the projectors say they are.
type positions struct {
	applied map[uint32]uint64
	// adopt marks the groups of which no delta has been seen since the
	// subscription: the first one may begin anywhere, since what was announced
	// before is part of the load (invariant 1).
	adopt   map[uint32]bool
	durable map[uint32]uint64    // by checkpoint
	behind  map[uint32]time.Time // since when durable has been ahead of applied
	// idle has the last checkpoint of each group that had caught up.
	idle map[uint32]Checkpoint
}

func newPositions() positions {
	return positions{map[uint32]uint64{}, map[uint32]bool{}, map[uint32]uint64{}, map[uint32]time.Time{}, map[uint32]Checkpoint{}}
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
	case !known || p.adopt[group] || from == at:
		return follows
	}
	return gap
}

func (p *positions) advance(group uint32, to uint64) {
	p.applied[group] = to
	delete(p.adopt, group)
	if to >= p.durable[group] {
		delete(p.behind, group)
	}
}

// checkpoint notes how far a projector says it is.
func (p *positions) checkpoint(c Checkpoint, now time.Time) {
	group, durable := c.Group, c.Durable
	p.durable[group] = durable
	if c.CaughtUp > durable {
		p.idle[group] = c
	}
	at, known := p.applied[group]
	if !known {
		p.applied[group], p.adopt[group] = durable, true
		return
	}
	if durable <= at {
		delete(p.behind, group)
	} else if _, is := p.behind[group]; !is {
		p.behind[group] = now
	}
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

// least returns the sequence up to which every group's events are in a state
// that has applied so much of each. A group whose projector has nothing left to
// fold does not hold the others back.
func (p *positions) least(folded map[uint32]uint64) uint64 {
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

// reached is how far a group is that has applied everything up to a sequence.
func (p *positions) reached(group uint32, seq uint64) uint64 {
	if idle := p.idle[group]; seq >= idle.Durable {
		return max(seq, idle.CaughtUp)
	}
	return seq
}

// groups returns how far each group is, nil unless all from 0 on are known.
func (p *positions) groups(folded map[uint32]uint64) []uint64 {
	out := make([]uint64, len(folded))
	for group, seq := range folded {
		if int(group) >= len(out) {
			return nil
		}
		out[group] = p.reached(group, seq)
	}
	return out
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
