package schedule

import "time"

// What is done when a job is due while as many of its runs go as may.
const (
	OverlapSkip   = "skip"         // it does not run
	OverlapBuffer = "buffer_one"   // it runs after them; what is due meanwhile is coalesced
	OverlapCancel = "cancel_other" // they are cancelled
	OverlapAllow  = "allow"        // it runs beside them
)

// What is done about what was due while no scheduler was there.
const (
	CatchUpNone   = "none"   // none of it runs
	CatchUpOne    = "one"    // all of it is one run
	CatchUpRecent = "recent" // the last of it runs, as many as Cap says
	CatchUpAll    = "all"    // all of it runs, or as many of the last as Cap says
)

const defaultCap = 10

// Policy is what is done about instants that cannot simply run.
type Policy struct {
	Overlap string        // empty: skip
	CatchUp string        // empty: one
	Within  time.Duration // what was due longer ago is not caught up; 0: however long ago
	Cap     int           // see CatchUpRecent, of which 10 run by default, and CatchUpAll
	// Spread is the least time between two runs of a job that are caught up. The first
	// waits for a part of it that differs from job to job.
	Spread time.Duration
	Jitter time.Duration // see the function Jitter
}
