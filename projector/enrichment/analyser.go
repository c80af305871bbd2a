package enrichment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/batches"
)

// Bounds of requests to the analyser.
const (
	requestItems = 50
	requestBytes = 512 << 10 // of contents, when there is more than one item
	atOnce       = 4
	// tries is how often the same request may fail before it is split, and in the end given up.
	tries = 3
	// opens is how many failures in a row open the circuit breaker, and opened how long it is.
	opens  = 5
	opened = 10 * time.Second
)

// analysis is what was found out about an item.
type analysis struct {
	schema.Analysis
	analyser string
}

// analyser asks users' analysers. It is safe for concurrent use.
type analyser struct {
	nats    *nats.Conn
	timeout time.Duration
	pause   time.Duration // between tries
	breaker *gobreaker.CircuitBreaker[schema.AnalyserReply]
	metrics *metrics
}

func newAnalyser(nc *nats.Conn, timeout time.Duration, m *metrics, log *slog.Logger) *analyser {
	a := &analyser{nats: nc, timeout: timeout, pause: time.Second, metrics: m}
	a.breaker = gobreaker.NewCircuitBreaker[schema.AnalyserReply](gobreaker.Settings{
		Name: "analyser", Timeout: opened,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= opens },
		IsSuccessful: func(err error) bool {
			return err == nil || errors.Is(err, errReply) || errors.Is(err, context.Canceled)
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			switch { // it is half open whenever the analyser is asked once, which says nothing yet
			case from == gobreaker.StateClosed:
				m.open.Set(1)
				log.Warn("the analyser does not answer and is left alone for a while, again and again", "asked_every", opened)
			case to == gobreaker.StateClosed:
				m.open.Set(0)
				log.Info("the analyser answers again")
			}
		},
	})
	return a
}

var (
	// errReply is the error of an answer that breaks a rule.
	errReply = errors.New("the analyser's answer breaks a rule")
	// errSilent is the error of a request that was not answered in time.
	errSilent = errors.New("the analyser did not answer in time")
	errLarge  = errors.New("the item is larger than a message of NATS may be")
)

// ask asks an analyser once.
func (a *analyser) ask(ctx context.Context, items []item) (schema.AnalyserReply, error) {
	request := schema.AnalyserRequest{Items: make([]schema.AnalyserItem, len(items))}
	for n := range items {
		request.Items[n] = items[n].AnalyserItem
		if c := &request.Items[n].Content; !json.Valid(*c) {
			*c, _ = json.Marshal(string(*c)) // a text has a JSON form always
		}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return schema.AnalyserReply{}, fmt.Errorf("write a request for the analyser: %w", err)
	}
	if int64(len(body)) > a.nats.MaxPayload() {
		return schema.AnalyserReply{}, errLarge
	}
	begin := time.Now()
	reply, err := a.breaker.Execute(func() (r schema.AnalyserReply, err error) {
		timed, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		m, err := a.nats.RequestWithContext(timed, stream.Analyse, body)
		switch {
		case ctx.Err() != nil:
			return r, context.Canceled
		case timed.Err() != nil:
			return r, errSilent
		case err != nil:
			return r, err
		}
		if r, err = schema.ReadAnalyserReply(m.Data, len(items)); err != nil {
			err = fmt.Errorf("%w: %w", errReply, err)
		}
		return r, err
	})
	a.metrics.asked(err, time.Since(begin))
	return reply, err
}

// analyse asks about items for as long as nobody answers. The result has as many.
func (a *analyser) analyse(ctx context.Context, items []item) ([]analysis, error) {
	for failures := 0; ; {
		reply, err := a.ask(ctx, items)
		switch {
		case err == nil:
			return results(reply), nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errLarge):
			failures = tries
		case errors.Is(err, errReply):
			failures++
		case errors.Is(err, errSilent) && (len(items) > 1 || a.answers(ctx)): // else nobody answers, and the item is not to blame
			failures++
		}
		switch {
		case failures < tries:
		case len(items) > 1:
			return a.halves(ctx, items)
		default:
			return []analysis{{Analysis: schema.Analysis{Error: err.Error()}}}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(a.pause):
		}
	}
}

// answers tells whether an analyser answers anything.
func (a *analyser) answers(ctx context.Context) bool {
	_, err := a.ask(ctx, nil)
	return err == nil
}

func (a *analyser) halves(ctx context.Context, items []item) ([]analysis, error) {
	first, err := a.analyse(ctx, items[:len(items)/2])
	if err != nil {
		return nil, err
	}
	second, err := a.analyse(ctx, items[len(items)/2:])
	return append(first, second...), err
}

func results(reply schema.AnalyserReply) []analysis {
	all := make([]analysis, len(reply.Items))
	for n, found := range reply.Items {
		all[n] = analysis{found, reply.Analyser}
	}
	return all
}

// analyseAll asks about items in requests of a bounded size, some at once.
func (a *analyser) analyseAll(ctx context.Context, items []item) ([]analysis, error) {
	all := make([]analysis, len(items))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for from := 0; from < len(items); {
		to, bytes := from+1, len(items[from].Content)
		for to < len(items) && to-from < requestItems && bytes+len(items[to].Content) <= requestBytes {
			bytes += len(items[to].Content)
			to++
		}
		some, into := items[from:to], all[from:to]
		g.Go(func() error {
			found, err := a.analyse(ctx, some)
			copy(into, found)
			return err
		})
		from = to
	}
	return all, g.Wait()
}
