package pipeline

import "sync"

// backlogs knows which slot groups have a backlog. It is safe for concurrent use.
type backlogs struct {
	tell func(backlog bool) // nil: nobody

	mu     sync.Mutex
	groups map[uint32]struct{}
}

// set notes whether a slot group has a backlog, and tells of the first that has one
// and of the end of the last.
func (b *backlogs) set(group uint32, has bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.groups) > 0
	if has {
		b.groups[group] = struct{}{}
	} else {
		delete(b.groups, group)
	}
	if b.tell != nil && before != (len(b.groups) > 0) {
		b.tell(has)
	}
}
