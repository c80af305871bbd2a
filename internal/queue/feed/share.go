package feed

import "slices"

// group is a group with rows that wait.
type group struct {
	name string
	live int    // items that have not ended
	most int    // of these
	fed  uint64 // when it was fed last; higher: later
	room int    // items that it gets
}

// full tells whether the group gets no more.
func (g group) full() bool { return g.live+g.room >= g.most }

// share gives what there is room for to the groups with the fewest items, one item at a
// time, and returns the groups that get some. Of groups with equally many, the one that was
// fed least recently goes first.
func share(groups []group, room int) []group {
	slices.SortStableFunc(groups, func(a, b group) int {
		switch {
		case a.live != b.live:
			return a.live - b.live
		case a.fed < b.fed:
			return -1
		case a.fed > b.fed:
			return 1
		}
		return 0
	})
	open := make([]*group, 0, len(groups)) // that get more
	for i := range groups {
		if !groups[i].full() {
			open = append(open, &groups[i])
		}
	}
	// The first groups up to some place have got items, and are level.
	for at, level := 0, 0; room > 0 && len(open) > 0; room-- {
		if at == 0 {
			level = open[0].live + open[0].room
		}
		if open[at].room++; open[at].full() {
			open = slices.Delete(open, at, at+1)
		} else {
			at++
		}
		if at == len(open) || open[at].live > level {
			at = 0
		}
	}
	return slices.DeleteFunc(groups, func(g group) bool { return g.room == 0 })
}
