package backfill

import (
	"errors"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/ingest/history"
)

// expansion cuts a table's rows into batches of events.
type expansion struct {
	*run
	expander *history.Expander
	out      func(*batch) bool
	batch    *batch
	done     position // up to the last row whose events are all in batches
}

// Why a row, or a stage of it, becomes no event here.
var (
	errRunning = errors.New("the execution had not ended when live events began, or until now; reconcile --replay adds what it lacks")
	errCounts  = errors.New("the numbers of items are negative")
)

// finishedAfter is when an execution that tells of no end must have ended.
const finishedAfter = 24 * time.Hour

// row adds the events of a row. It returns false when the run ends.
func (x *expansion) row(row *history.Row) bool {
	ok := true
	err := x.check(row)
	if err == nil {
		err = x.expander.Expand(row, func(stage string) bool { return row.At.Before(x.untilOf(stage)) }, func(e history.Event) bool {
			x.batch.msgs, x.batch.stages = append(x.batch.msgs, e.Message), append(x.batch.stages, e.Stage)
			ok = len(x.batch.msgs) < x.cfg.Batch || x.flush()
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
	x.batch.rows++
	// A page of rows without events must not keep the position back.
	return x.batch.rows < pageRows || x.flush()
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

// flush hands the batch over, and begins another.
func (x *expansion) flush() bool {
	b := x.batch
	b.done = x.done
	x.batch = x.newBatch()
	return x.out(b)
}
