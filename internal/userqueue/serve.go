package userqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// answerWait bounds one request.
const answerWait = 10 * time.Second

// Serve adds items that clients ask for over NATS, until ctx ends. Any number of
// processes may serve: each request goes to one.
func (s *Store) Serve(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	return serve(ctx, nc, log, stream.WorkEnqueue, 1, func(ctx context.Context, data []byte) any {
		return s.answer(ctx, data, log)
	})
}

// reportsAtOnce bounds how many reports are applied at a time.
const reportsAtOnce = 16

// Serve takes reports over NATS, until ctx ends. Any number of processes may serve.
func (s *Reports) Serve(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	return serve(ctx, nc, log, stream.WorkReport, reportsAtOnce, func(ctx context.Context, data []byte) any {
		return s.answer(ctx, data, log)
	})
}

// serve answers the requests on a subject, so many at a time.
func serve(
	ctx context.Context, nc *nats.Conn, log *slog.Logger, subject string, atOnce int,
	answer func(ctx context.Context, data []byte) any,
) error {
	requests := make(chan *nats.Msg, 256)
	sub, err := nc.ChanQueueSubscribe(subject, "millrace", requests)
	if err != nil {
		return fmt.Errorf("answer on %s: %w", subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // or the connection is closed
	var g errgroup.Group
	g.SetLimit(atOnce)
	defer func() { _ = g.Wait() }() // they return no errors
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg := <-requests:
			g.Go(func() error {
				ctx, cancel := context.WithTimeout(stream.WithTrace(ctx, msg.Header.Get(stream.TraceParent)), answerWait)
				defer cancel()
				data, err := json.Marshal(answer(ctx, msg.Data))
				if err == nil {
					err = msg.Respond(data)
				}
				if err != nil {
					log.Debug("a client is not answered, and asks again", "subject", subject, "error", err)
				}
				return nil
			})
		}
	}
}

func (s *Store) answer(ctx context.Context, data []byte, log *slog.Logger) stream.Enqueued {
	in, broken := readEnqueue(data)
	if len(broken) > 0 {
		return stream.Enqueued{Error: ruleText(broken), Refused: true}
	}
	added, err := s.Enqueue(ctx, in.Queue, in.Items)
	if err != nil {
		log.Debug("items of a client are not added", "queue", in.Queue, "error", err)
		return stream.Enqueued{
			Error: dbpool.Message(err), Refused: errors.Is(err, queue.ErrNoQueue) || dbpool.Refused(err),
		}
	}
	out := stream.Enqueued{Items: make([]stream.EnqueuedItem, len(added))}
	for i, a := range added {
		out.Items[i] = stream.EnqueuedItem(a)
	}
	return out
}

// ruleText says which rules a request breaks.
func ruleText(broken []item.Invalid) string {
	errs := make([]error, len(broken))
	for i := range broken {
		errs[i] = &broken[i]
	}
	return errors.Join(errs...).Error()
}

func (s *Reports) answer(ctx context.Context, data []byte, log *slog.Logger) stream.Reported {
	r, broken := parseReport(data)
	if len(broken) > 0 {
		return refusedReport(broken...)
	}
	of, err := s.store.Get(ctx, r.Queue)
	if errors.Is(err, queue.ErrNoQueue) {
		return refusedReport(item.Invalid{Field: "queue", Code: "not_found", Rule: "must be a queue of your own that exists"})
	}
	if err != nil {
		return stream.Reported{Error: dbpool.Message(err)}
	}
	result, err := s.Make(ctx, of, r)
	var invalid *item.Invalid
	if errors.As(err, &invalid) {
		return refusedReport(*invalid)
	}
	if err != nil {
		log.Debug("a report is not applied", "queue", r.Queue, "item", r.ID, "error", err)
		return stream.Reported{Error: dbpool.Message(err), Refused: dbpool.Refused(err)}
	}
	if result.Outcome == item.NotFound {
		return refusedReport(item.Invalid{Field: "id", Code: "not_found", Rule: "must be an item of the queue"})
	}
	state, err := s.store.State(ctx, of.ID, r.ID)
	if err != nil {
		return stream.Reported{Error: dbpool.Message(err)}
	}
	out := stream.Reported{}
	if !result.Outcome.OK() {
		out = refusedReport(Conflict(r.Report, state, result.Outcome))
	}
	out.ID, out.State, out.Generation, out.Attempts = r.ID, state, result.Generation, result.Attempts
	return out
}

// Conflict is the rule that a report breaks which the state of its item does not allow.
func Conflict(report, state string, outcome item.Outcome) item.Invalid {
	rule := fmt.Sprintf("must allow %s, and the item is %s", report, state)
	if outcome == item.Fenced {
		rule = "must be of the generation and the worker named: another worker has the item, or it has ended"
	}
	return item.Invalid{Field: "state", Code: outcome.String(), Rule: rule}
}

func refusedReport(broken ...item.Invalid) stream.Reported {
	out := stream.Reported{Error: ruleText(broken), Refused: true}
	for _, b := range broken {
		out.Errors = append(out.Errors, stream.ReportFault(b))
	}
	return out
}

// parseReport reads a request, and returns all rules that it breaks.
func parseReport(data []byte) (r stream.Report, broken []item.Invalid) {
	err := json.Unmarshal(data, &r)
	if err != nil && !json.Valid(data) {
		return r, []item.Invalid{{Field: "request", Code: "json", Rule: "must be one JSON object: " + err.Error()}}
	}
	unknownIn(data, "", reportMembers, &broken)
	if err != nil {
		return r, append(broken, mistyped(err))
	}
	add := func(field, code, rule string) {
		broken = append(broken, item.Invalid{Field: field, Code: code, Rule: rule})
	}
	if r.Queue == "" {
		add("queue", "missing", "is required: the queue, as the message says it")
	}
	if r.ID <= 0 {
		add("id", "missing", "is required: the id of the item, as the message says it")
	}
	if r.Generation <= 0 {
		add("generation", "missing", "is required: that of the message, or of the take")
	}
	if _, rule := handout.ParseMove(r.Report, reports); rule != "" {
		add("report", "unknown", rule)
	}
	return r, append(broken, CheckReport(r)...)
}
