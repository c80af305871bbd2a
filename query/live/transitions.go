package live

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/endpoint"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// TransitionPage is how many transitions a feed reads at a time.
const TransitionPage = 1000

const (
	heartbeat = 15 * time.Second // without transitions a feed says that it lives
	writeTime = 10 * time.Second // a reader that takes none in this time has gone
)

// TransitionsConfig shapes feeds. The zero value of a field stands for its default.
type TransitionsConfig struct {
	Poll  time.Duration // how often a feed looks for transitions; default 200 ms
	Feeds int           // that may be open at a time, see Seats; default 64
}

// Transition is a transition. Data is nil for one that is not for this reader.
type Transition struct {
	Place queue.Place
	Data  any
}

// Follow returns up to Page transitions behind a place.
type Follow func(ctx context.Context, after queue.Place) ([]Transition, error)

// Transitions serves feeds.
type Transitions struct {
	cfg  TransitionsConfig
	now  func(context.Context) (queue.Place, error)
	open *Seats
}

// NewTransitions returns feeds. Now is the place behind all that has happened.
func NewTransitions(cfg TransitionsConfig, now func(context.Context) (queue.Place, error)) *Transitions {
	cfg.Poll = cmp.Or(cfg.Poll, 200*time.Millisecond)
	cfg.Feeds = cmp.Or(cfg.Feeds, 64)
	return &Transitions{cfg: cfg, now: now, open: NewSeats(cfg.Feeds)}
}

// Serve registers an operation that serves feeds of what begin chooses for a request, until the
// server drains. A feed is as fast as its reader and holds a page at most.
func (f *Transitions) Serve(api endpoint.API, op *huma.Operation, begin func(*http.Request) (Follow, error)) {
	api.Server.Handle(op, f.handler(api, api.Server.Draining(), begin), api.Auth.Require(auth.Read))
}

func (f *Transitions) handler(
	api endpoint.API, draining <-chan struct{}, begin func(*http.Request) (Follow, error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := untilExpiry(r.Context())
		defer cancel()
		seat, ok := f.open.Take(auth.CallerName(ctx), cancel)
		if !ok {
			httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusServiceUnavailable,
				"as many feeds are open as the server allows").WithHeader("Retry-After", "10"))
			return
		}
		defer seat.Leave()
		follow, err := begin(r)
		var at queue.Place
		if err == nil {
			at, err = f.place(r)
		}
		if err != nil {
			api.Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no") // proxies must not hold it back
		if _, err := f.serve(ctx, draining, at, follow, w); err != nil && r.Context().Err() == nil {
			api.Log.Debug("a feed of transitions has ended", "error", err)
		}
	})
}

// untilExpiry ends a feed with the token that opened it.
func untilExpiry(ctx context.Context) (context.Context, context.CancelFunc) {
	if at := auth.CallerFrom(ctx).Expires; !at.IsZero() {
		return context.WithDeadline(ctx, at)
	}
	return context.WithCancel(ctx)
}

// place is where a reader begins.
func (f *Transitions) place(r *http.Request) (queue.Place, error) {
	last := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("last_event_id"))
	if last == "" {
		return f.now(r.Context())
	}
	at, err := queue.ParsePlace(last)
	if err != nil {
		err = &item.Invalid{Field: "Last-Event-ID", Code: "event_id", Rule: "must be the id of an event of this feed"}
	}
	return at, err
}

// serve writes until the reader goes, the server ends or Postgres fails: the
// reader resumes with the id of its last event, and misses nothing.
func (f *Transitions) serve(ctx context.Context, draining <-chan struct{}, at queue.Place, follow Follow,
	w http.ResponseWriter,
) (queue.Place, error) {
	conn := http.NewResponseController(w)
	send := func(text string) error {
		_ = conn.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return conn.Flush()
	}
	// The first id is that of the begin, for readers who lose the connection
	// before anything happens.
	if err := send(fmt.Sprintf("retry: 1000\nid: %s\n\n", at)); err != nil {
		return at, err
	}
	tick := time.NewTicker(f.cfg.Poll)
	defer tick.Stop()
	quiet := time.Now()
	for {
		text, last, more, err := page(ctx, at, follow)
		if err != nil {
			return at, err
		}
		if at = last; text == "" && time.Since(quiet) >= heartbeat {
			text = ": quiet\nid: " + at.String() + "\n\n"
		}
		if text != "" {
			quiet = time.Now()
			if err := send(text); err != nil {
				return at, err
			}
		}
		select {
		case <-draining:
			return at, nil
		default:
		}
		if more {
			continue
		}
		select {
		case <-tick.C:
		case <-draining:
			return at, nil
		case <-ctx.Done():
			return at, ctx.Err()
		}
	}
}

// page is the text of what has happened since, up to where, and whether there is
// more.
func page(ctx context.Context, at queue.Place, follow Follow) (text string, last queue.Place, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	all, err := follow(ctx, at)
	if err != nil {
		return "", at, false, err
	}
	var b []byte
	for _, e := range all {
		at = e.Place
		if e.Data == nil {
			continue
		}
		line, err := json.Marshal(e.Data)
		if err != nil {
			return "", at, false, fmt.Errorf("write a transition: %w", err)
		}
		b = fmt.Appendf(b, "id: %s\nevent: transition\ndata: %s\n\n", e.Place, line)
	}
	return string(b), at, len(all) >= TransitionPage, nil
}

// DescribeTransitions completes the description of a feed whose events are of the type of v.
func DescribeTransitions(srv *httpapi.Server, op huma.Operation, v any) *huma.Operation {
	param := func(name, in string) *huma.Param {
		return &huma.Param{
			Name: name, In: in, Description: "Begin behind this event",
			Schema: &huma.Schema{Type: huma.TypeString},
		}
	}
	op.Method, op.Security = http.MethodGet, auth.Security(auth.Read)
	op.Description += "Server-sent events: each has the event transition, an id, and as data a transition. The feed " +
		"begins now, or behind the event that " +
		"the header Last-Event-ID (or the parameter last_event_id) names: a reader that comes again misses nothing."
	op.Parameters = append(op.Parameters, param("last_event_id", "query"), param("Last-Event-ID", "header"))
	schema := srv.Answer("The events", v).Content["application/json"]
	op.Responses = srv.Problems(map[string]*huma.Response{
		"200": {
			Description: "The events, without end",
			Content:     map[string]*huma.MediaType{"text/event-stream": schema},
		},
	}, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable)
	return &op
}
