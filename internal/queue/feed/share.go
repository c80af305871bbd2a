package feed

import "slices"

// group is a group with rows that wait.
type group struct {
	name string
	live int    // items that have not ended
	fed  uint64 // when it was fed last; higher: later
	room int    // items that it gets
}

// share gives what there is room for to the groups with the fewest items, one item at a
// time, and returns the groups that get some. Of groups with equally many, the one that was
// fed least recently goes first.
func share(groups []group, room int) []group {
	if len(groups) == 0 {
		return nil
	}
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
	// The first groups up to some place have got items, and are level.
	for at, level := 0, 0; room > 0; room-- {
		if at == 0 {
			level = groups[0].live + groups[0].room
		}
		groups[at].room++
		if at++; at == len(groups) || groups[at].live > level {
			at = 0
		}
	}
	return slices.DeleteFunc(groups, func(g group) bool { return g.room == 0 })
}
