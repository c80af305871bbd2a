package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/schemas/stream"
)

// NotFound says that what an item of an upload asks for is not there. If the handler returns without
// an error, its row is looked for once more later, and is NOT_FOUND then; there is no result. ctx is
// the handler's; with any other it does nothing. In a queue that no upload is worked in, the item
// fails.
func NotFound(ctx context.Context) {
	say(ctx, func(t *task) { t.notFound, t.skipped = true, false })
}

// Skipped says that an item of an upload needs no result. If the handler returns without an error,
// its row is SKIPPED. ctx is the handler's; with any other it does nothing. In a queue that no upload
// is worked in, the item fails.
func Skipped(ctx context.Context) {
	say(ctx, func(t *task) { t.notFound, t.skipped = false, true })
}

// Failure is an error of an item of an upload with what decides when its row is tried again. In a
// queue that no upload is worked in, it counts as After(RetryAfter, Err), and as Err without one.
type Failure struct {
	Err error
	// Class is throttled, server, network, invalid, or an HTTP status such as 429; a row with an
	// error of the class invalid is not tried again.
	Class string
	// Domain is whose error it is, such as a host: rows with errors of one domain are tried again
	// one after the other.
	Domain string
	// RetryAfter is how long the next attempt waits at least.
	RetryAfter time.Duration
}

func (f *Failure) Error() string {
	if f.Err == nil {
		return f.Class
	}
	return f.Err.Error()
}

func (f *Failure) Unwrap() error { return f.Err }

// ending is how an item ends.
type ending struct {
	stream.WorkMove
	// report says more than the move, and is sent in its place. The move is sent where the server
	// refuses what the report says. nil: the move says all.
	report *stream.Report
}

// reporter sends reports, several at a time. A move says less than a report, and many of them share
// a request.
type reporter struct {
	w    *worker
	in   chan *reported
	done sync.WaitGroup
}

// reported is a report on its way to its answer.
type reported struct {
	t   *task
	end ending
}

// reportsAtOnce is how many reports of a worker are under way.
const reportsAtOnce = 16

func (r *reporter) start() {
	for range reportsAtOnce {
		r.done.Go(func() {
			for of := range r.in {
				r.send(of)
			}
		})
	}
}

// stop returns when every report has its answer. No report may be added any more.
func (r *reporter) stop() {
	close(r.in)
	r.done.Wait()
}

// send sends a report again until it is answered, or the lease is over: after that another worker may have the item.
func (r *reporter) send(of *reported) {
	w, t, end := r.w, of.t, of.end
	ctx, cancel := context.WithTimeout(context.Background(), w.lease())
	defer cancel()
	var answer stream.Reported
	err := askAgain.Do(ctx, func() (err error) {
		answer, err = report(ctx, w.nc, *end.report)
		return unlessFinal(err)
	}, func(err error, wait time.Duration) {
		w.log.Debug("reporting again", "stage", w.stage, "item", t.item.ID, "wait", wait, "error", err)
	})
	switch {
	case err != nil:
		w.log.Warn("the end of an item was not told", "stage", w.stage, "item", t.item.ID, "error", err)
		w.ended(t, end.Kind, stream.WorkVerdict{}, false)
	case !answer.Refused:
		w.ended(t, end.Kind, stream.WorkVerdict{Verdict: stream.VerdictMade}, true)
	case gone(answer):
		w.ended(t, end.Kind, stream.WorkVerdict{Verdict: stream.VerdictGone}, true)
	case end.Kind == stream.MoveDone:
		w.move(t, stream.WorkMove{Kind: stream.MoveFail, Error: cut(answer.Error, longestReason)})
	default:
		w.move(t, end.WorkMove)
	}
}

// gone tells whether a report was refused because another worker holds the item, or it has ended.
func gone(answer stream.Reported) bool {
	return slices.ContainsFunc(answer.Errors, func(fault stream.ReportFault) bool {
		return fault.Field == "state" || fault.Field == "id"
	})
}

// report sends a report once.
func report(ctx context.Context, nc *nats.Conn, r stream.Report) (answer stream.Reported, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return answer, errors.Join(errRefused, fmt.Errorf("report: %w", err))
	}
	if err := exchange(ctx, nc, stream.WorkReport, body, &answer); err != nil {
		return answer, fmt.Errorf("report: %w", err)
	}
	if answer.Error != "" && !answer.Refused {
		return answer, fmt.Errorf("report: %s", answer.Error)
	}
	return answer, nil
}
