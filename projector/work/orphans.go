package work

import (
	"sync"
	"time"
)

// orphans are items that plain daemons have and that the server may wait for no more,
// as when their messages are gone: this process does in its place. It goes by the
// monotonic clock. The zero value is that of a new leader.
type orphans struct {
	mu    sync.Mutex
	since map[ref]time.Time // by the generation of the taking: the last word, or when it was found
}

// hear notes a sign of life.
func (o *orphans) hear(r ref) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.since[r]; ok {
		o.since[r] = time.Now()
	}
}

// silent notes what a comparison has found, forgets all others, and returns
// those that nothing was heard of for longer than the patience with them.
func (o *orphans) silent(found map[ref]time.Duration) []ref {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := make(map[ref]time.Time, len(found))
	var silent []ref
	for r, patience := range found {
		at, known := o.since[r]
		if !known {
			at = time.Now()
		}
		since[r] = at
		if time.Since(at) > patience {
			silent = append(silent, r)
		}
	}
	o.since = since
	return silent
}
