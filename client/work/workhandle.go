package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace/schemas/stream"
)

// work runs handlers, one at a time, until nothing more will come.
func (w *worker) work() {
	for t := range w.ready {
		end := ending{WorkMove: stream.WorkMove{Kind: stream.MoveRelease}}
		if !w.stopped.Load() {
			end = w.handle(t)
		}
		w.free()
		if end.report != nil {
			w.says.in <- &reported{t, end}
		} else {
			w.move(t, end.WorkMove)
		}
	}
}

// move has a move end an item.
func (w *worker) move(t *task, end stream.WorkMove) {
	end.ID, end.Generation = t.item.ID, t.generation
	w.ends.in <- &move{WorkMove: end, then: func(v stream.WorkVerdict, known bool) { w.ended(t, end.Kind, v, known) }}
}

// handle calls the handler, unless the item was lost before its turn, and says
// how the item goes on.
func (w *worker) handle(t *task) ending {
	ctx, cancel := context.WithCancelCause(w.handlers)
	defer cancel(nil)
	w.mu.Lock()
	t.cancel = cancel
	lost := t.lost
	w.mu.Unlock()
	release := ending{WorkMove: stream.WorkMove{Kind: stream.MoveRelease}}
	if lost {
		return release
	}
	ctx = stream.WithTrace(context.WithValue(ctx, sayKey{}, &saying{w, t}), t.own.TraceParent)
	begin := time.Now()
	err := w.call(ctx, Item{
		Filename: t.item.Filename, Shard: t.item.Shard, Stage: w.stage,
		ID: t.item.ID, Key: t.own.Key, Group: t.own.Group, Priority: int(t.own.Priority), Payload: t.own.Payload,
		Attempt: int(t.item.Attempts), CreatedAt: t.item.CreatedAt,
	})
	w.pace.note(time.Since(begin))
	if cause := context.Cause(ctx); err != nil && (errors.Is(cause, errStopping) || errors.Is(cause, errLost)) {
		return release
	}
	if err != nil {
		return w.failure(t, err)
	}
	return w.success(t)
}

func (w *worker) success(t *task) ending {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := ending{WorkMove: stream.WorkMove{Kind: stream.MoveDone, Result: t.result}}
	if t.notFound || t.skipped || len(t.result) > movedResult {
		end.report = w.report(t, "done")
		end.report.NotFound, end.report.Skipped, end.report.Result = t.notFound, t.skipped, t.result
	}
	return end
}

func (w *worker) failure(t *task, err error) ending {
	end := ending{WorkMove: stream.WorkMove{Kind: stream.MoveAgain, Error: reason(err)}}
	var no *permanent
	var after *later
	var more *Failure
	permanent, delayed, says := errors.As(err, &no), errors.As(err, &after), errors.As(err, &more)
	switch {
	case permanent:
		end.Kind = stream.MoveFail
	case delayed:
		end.Delay = max(after.delay, 0)
	case says && more.RetryAfter > 0:
		end.Delay = more.RetryAfter
	case w.cfg.Backoff != nil:
		end.Delay = max(w.cfg.Backoff(int(t.item.Attempts)), 0)
	default:
		end.Delay, end.Backoff = backoff(int(t.item.Attempts)), true
	}
	if !says {
		return end
	}
	end.report = w.report(t, "fail")
	end.report.Error, end.report.Permanent = end.Error, permanent
	end.report.Class, end.report.Domain = more.Class, more.Domain
	if more.RetryAfter > 0 {
		end.report.RetryAfterS = new(more.RetryAfter.Seconds())
	}
	if delayed || w.cfg.Backoff != nil && more.RetryAfter <= 0 {
		end.report.DelayS = new(end.Delay.Seconds())
	}
	return end
}

// report returns a report about an item.
func (w *worker) report(t *task, what string) *stream.Report {
	return &stream.Report{Queue: w.stage, ID: t.item.ID, Generation: t.generation, Worker: w.cfg.Worker, Report: what}
}

// saying is where a handler says something of its item.
type saying struct {
	worker *worker
	task   *task
}

type sayKey struct{}

// uploadGroup begins the groups of the items of uploads.
const uploadGroup = "upload:"

// say has a handler say something of its item.
func say(ctx context.Context, what func(*task)) {
	if s, ok := ctx.Value(sayKey{}).(*saying); ok {
		s.worker.mu.Lock()
		defer s.worker.mu.Unlock()
		what(s.task)
	}
}

// Progress says what a handler is at, such as "page 3 of 10", to whoever looks at its
// item. ctx is the handler's; with any other it does nothing. It does not wait: the server
// hears within about a second what was said last. Text beyond 500 bytes is cut.
func Progress(ctx context.Context, text string) {
	say(ctx, func(t *task) { t.progress = cut(text, longestProgress) })
}

// SetResult sets what the work has come to. It is encoded as JSON and kept with the item if
// the handler returns without an error; a later result replaces an earlier one. A run of a
// crawl says how many articles it has found:
//
//	work.SetResult(ctx, map[string]int{"articles_count": 47})
//
// ctx is the handler's. A result that cannot be encoded, or has more than 64 KiB then, is
// an error, and the result before stays. That of a row of an upload is an object of up to 1 MiB.
func SetResult(ctx context.Context, result any) error {
	s, ok := ctx.Value(sayKey{}).(*saying)
	if !ok {
		return errors.New("work: set the result of an item: the context is not that of a handler")
	}
	data, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("work: set the result of item %d: %w", s.task.item.ID, err)
	}
	most := movedResult
	if strings.HasPrefix(s.task.own.Group, uploadGroup) {
		most = min(longestResult, int(s.worker.nc.MaxPayload())-reportSize)
	}
	if len(data) > most {
		return fmt.Errorf("work: set the result of item %d: it has %d bytes of JSON, and may have %d", s.task.item.ID,
			len(data), most)
	}
	say(ctx, func(t *task) { t.result = data })
	return nil
}

// call turns a panic into an error.
func (w *worker) call(ctx context.Context, item Item) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("handler panicked", "stage", w.stage, "filename", item.Filename, "shard", item.Shard,
				"panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return w.handler(ctx, item)
}

// Bounds of what is kept of an error, of what a worker is at, and of a result, in bytes.
const (
	longestReason   = 2000
	longestProgress = 500
	longestResult   = 1 << 20
	movedResult     = 64 << 10 // that a move may have
	reportSize      = 4 << 10  // of what a report has beside its result
)

func reason(err error) string {
	return cut(err.Error(), longestReason)
}

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

func (w *worker) ended(t *task, kind stream.MoveKind, v stream.WorkVerdict, known bool) {
	w.mu.Lock()
	delete(w.held, t.offer())
	w.mu.Unlock()
	if known && v.Verdict == stream.VerdictMade {
		return
	}
	w.log.Warn("the end of an item was not taken: its lease was over", "stage", w.stage,
		"filename", t.item.Filename, "shard", t.item.Shard, "item", t.item.ID, "move", kind, "answered", known)
}

// heartbeat looks after leases until quiet is closed.
func (w *worker) heartbeat(quiet <-chan struct{}, look func(now time.Time)) {
	tick := time.NewTicker(min(max(w.cfg.Lease, shortestLease)/6, time.Second))
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			look(now)
		case <-quiet:
			return
		}
	}
}

// renew extends the leases of which a third has passed, and of items of which there is
// something to say.
func (w *worker) renew(now time.Time) {
	var due []*move
	w.mu.Lock()
	for _, t := range w.held {
		if t.generation == 0 || now.Sub(t.lease) < w.lease()/3 && t.progress == t.told {
			continue
		}
		t.told = t.progress
		due = append(due, &move{
			WorkMove: stream.WorkMove{Kind: stream.MoveExtend, ID: t.item.ID, Generation: t.generation, Progress: t.progress},
			then:     func(v stream.WorkVerdict, known bool) { w.renewed(t, now, v, known) },
		})
	}
	w.mu.Unlock()
	for _, mv := range due {
		w.beat.in <- mv
	}
}

// expire lets go of what has not been renewed for the length of a lease: while
// nobody answers, it may have gone to another worker.
func (w *worker) expire(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.held {
		if t.generation != 0 && now.Sub(t.lease) >= w.lease() {
			t.lose()
		}
	}
}

// lose notes that an item may be held by another worker, and ends the context of its
// handler, if it has one. The worker's mu has to be held.
func (t *task) lose() {
	t.lost = true
	if t.cancel != nil {
		t.cancel(errLost)
	}
}

// errLost is why a handler's context ends when its item is held by another worker.
var errLost = errors.New("the lease of the item is over")

func (w *worker) renewed(t *task, at time.Time, v stream.WorkVerdict, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !known:
	case v.Verdict == stream.VerdictMade:
		t.lease = at
	default:
		t.lose()
	}
}

// pace follows how long handlers take, to tell how far ahead to take items:
// far where they are quick, so that no handler waits, and not at all where they
// are slow, so that no item waits for this worker while another is idle.
type pace struct{ mean atomic.Int64 } // nanoseconds; 0: not known

func (p *pace) note(took time.Duration) {
	mean := p.mean.Load()
	if mean == 0 {
		mean = int64(took)
	}
	p.mean.Store(max(mean+(int64(took)-mean)/16, 1)) // updates that are lost are fine
}

// aheadFor is how much work is taken ahead.
const aheadFor = 100 * time.Millisecond

func (p *pace) ahead(concurrency int) int {
	mean := p.mean.Load()
	if mean == 0 {
		return 0
	}
	return int(min(int64(concurrency)*int64(aheadFor)/mean, int64(concurrency)*2, mostAhead))
}
