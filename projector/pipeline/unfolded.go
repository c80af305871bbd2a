package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/lag"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/schemas/slots"
)

// Reasons why a slot group that this process holds is not folded.
const (
	opening           lag.Reason = "opening"            // its views are being read, or its key store filled
	rowsMissing       lag.Reason = "rows_missing"       // ClickHouse lacks rows that were counted
	keyStoreDamaged   lag.Reason = "key_store_damaged"  // and not replaced yet
	keyStoreFull      lag.Reason = "key_store_full"     // the disk of its key store is full
	clickhouseFailing lag.Reason = "clickhouse_failing" // it refuses, or does not answer
	failing           lag.Reason = "failing"            // the log says why
)

// errRowsMissing is the error of a slot group that is not folded because of what
// ClickHouse lacks.
var errRowsMissing = errors.New("rows are missing in ClickHouse")

// forgetAfter is for how long a failure is reported unless it recurs. A session that
// fails begins again within half a minute, unless another projector takes the group.
const forgetAfter = time.Minute

// unfolded knows of the slot groups that this process holds, or held last, whether they
// are folded. It is safe for concurrent use.
type unfolded struct {
	mu     sync.Mutex
	groups map[uint32]*holding
}

// holding is a slot group that this process holds, or held last.
type holding struct {
	ended   bool // the last session has failed
	open    bool
	full    func() bool // the disk of the key store is; nil: no session has it open
	refused func() bool // by ClickHouse; nil as well
	failure error       // of the session before
	failed  time.Time
}

// begin notes that a session begins, and returns what notes its end.
func (u *unfolded) begin(g slots.Group) (end func(error)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	h := u.groups[g.ID]
	if h == nil {
		h = &holding{}
		u.groups[g.ID] = h
	}
	h.ended, h.open = false, false
	return func(err error) { u.end(g, err) }
}

// uses notes what tells of the stores of the group's session.
func (u *unfolded) uses(g slots.Group, full, refused func() bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h := u.groups[g.ID]; h != nil {
		h.full, h.refused = full, refused
	}
}

// opened notes that the group's session folds.
func (u *unfolded) opened(g slots.Group) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if h := u.groups[g.ID]; h != nil {
		h.open, h.failure = true, nil
	}
}

func (u *unfolded) end(g slots.Group, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, fold.ErrLost) {
		delete(u.groups, g.ID)
		return
	}
	u.groups[g.ID] = &holding{ended: true, failure: err, failed: time.Now()}
}

// reasons returns the groups that are not folded, and why.
func (u *unfolded) reasons() map[uint32]lag.Reason {
	u.mu.Lock()
	defer u.mu.Unlock()
	reasons := map[uint32]lag.Reason{}
	for id, h := range u.groups {
		switch reason := h.reason(); {
		case reason != "":
			reasons[id] = reason
		case h.ended:
			delete(u.groups, id)
		}
	}
	return reasons
}

// reason returns why the group is not folded; empty: it is, or this process has nothing
// more to do with it.
func (h *holding) reason() lag.Reason {
	switch {
	case h.ended && time.Since(h.failed) > forgetAfter:
		return ""
	case h.full != nil && h.full():
		return keyStoreFull
	case h.refused != nil && h.refused():
		return clickhouseFailing
	case h.open:
		return ""
	case h.failure != nil:
		return reasonOf(h.failure)
	}
	return opening
}

// reasonOf returns the reason that an error stands for.
func reasonOf(err error) lag.Reason {
	switch {
	case errors.Is(err, errRowsMissing):
		return rowsMissing
	case errors.Is(err, keystore.ErrFull):
		return keyStoreFull
	case keystore.IsDamaged(err):
		return keyStoreDamaged
	}
	return failing
}
