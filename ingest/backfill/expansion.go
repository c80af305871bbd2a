package backfill

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/ingest/history"
)

// expansion cuts a table's rows into chunks of events.
type expansion struct {
	*run
	expander *history.Expander
	out      func(*chunk) bool
	chunk    *chunk
	done     cursor // up to the last row whose events are all in chunks
}

// Why a row, or a stage of it, becomes no event here.
var (
	errRunning = errors.New(
		"the execution had not ended when live events began, or until now; reconcile --replay adds what it lacks",
	)
	errCounts = errors.New("the numbers of items are negative")
)

// finishedAfter is when an execution that tells of no end must have ended.
const finishedAfter = 24 * time.Hour

// row adds the events of a row. It returns false when the run ends.
func (x *expansion) row(row *history.Row) bool {
	ok := true
	err := x.check(row)
	if err == nil {
		err = x.expander.Expand(row, func(stage string) bool { return row.At.Before(x.untilOf(stage)) },
			func(e history.Event) bool {
				x.chunk.msgs, x.chunk.stages = append(x.chunk.msgs, e.Message), append(x.chunk.stages, e.Stage)
				ok = len(x.chunk.msgs) < x.cfg.Batch || x.flush()
				return ok
			})
	}
	if !ok {
		return false
	}
	if err != nil {
		x.tally.reject(fmt.Sprintf("row %s of %s", row.ID, row.At.Format(time.RFC3339)), err)
	}
	x.done = x.done.after(row)
	x.chunk.rows++
	// A page of rows without events must not keep the cursor back.
	return x.chunk.rows < pageRows || x.flush()
}

// check judges what the expander does not know.
func (x *expansion) check(row *history.Row) error {
	if !x.src.Counts() {
		return nil
	}
	if row.Crawled < 0 || row.Indexed < 0 {
		return errCounts
	}
	if !x.src.HasEnds() {
		return nil
	}
	until := x.untilOf(x.src.Stages[0])
	if u := x.untilOf(x.src.Stages[1]); u.Before(until) {
		until = u
	}
	if row.Ended.After(until) || (row.Ended.IsZero() && until.Sub(row.At) < finishedAfter) {
		return errRunning
	}
	return nil
}

// flush hands the chunk over, and begins another.
func (x *expansion) flush() bool {
	c := x.chunk
	c.done = x.done
	x.chunk = x.newChunk()
	return x.out(c)
}
