package shards

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/internal/tracking/trackingapi"
	"github.com/millrace-io/millrace/schemas/shard"
)

const (
	feedPage  = 1000             // transitions that a feed reads at a time
	heartbeat = 15 * time.Second // without transitions a feed says that it lives
	writeTime = 10 * time.Second // a reader that takes none in this time has gone
)

// follower is one feed.
type follower struct {
	store *tracking.Store
	at    tracking.Place
	stage *shard.Stage
	file  string
}

// feed serves transitions as server-sent events. A feed is as fast as its
// reader and holds a page at most.
func (h *Handler) feed(draining <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.feeds <- struct{}{}:
			defer func() { <-h.feeds }()
		default:
			httpapi.WriteProblem(w, httpapi.NewProblem(http.StatusServiceUnavailable, "as many feeds are open as the server allows").WithHeader("Retry-After", "10"))
			return
		}
		f, err := h.newFollower(r)
		if err != nil {
			h.writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no") // proxies must not hold it back
		ctx, cancel := untilExpiry(r.Context())
		defer cancel()
		if err := h.follow(ctx, draining, f, w); err != nil && r.Context().Err() == nil {
			h.log.Debug("a feed of transitions has ended", "error", err)
		}
	})
}

// untilExpiry ends a feed with the token that opened it.
func untilExpiry(ctx context.Context) (context.Context, context.CancelFunc) {
	if at := auth.CallerFrom(ctx).Expires; !at.IsZero() {
		return context.WithDeadline(ctx, at)
	}
	return ctx, func() {}
}

func (h *Handler) writeError(w http.ResponseWriter, err error) {
	p := trackingapi.Problem(h.log, err)
	if problem, ok := p.(*httpapi.Problem); ok {
		httpapi.WriteProblem(w, problem)
		return
	}
	httpapi.WriteProblem(w, httpapi.Internal(err))
}

func (h *Handler) newFollower(r *http.Request) (f *follower, err error) {
	f = &follower{store: h.store, file: r.URL.Query().Get("filename")}
	if err := printable("filename", f.file); err != nil {
		return nil, err
	}
	if f.stage, err = parseStage(r.URL.Query().Get("stage")); err != nil {
		return nil, err
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("last_event_id")
	}
	if last == "" {
		f.at, err = h.store.Now(r.Context())
		return f, err
	}
	if f.at, err = tracking.ParsePlace(last); err != nil {
		return nil, &shard.Invalid{Field: "Last-Event-ID", Code: "event_id", Rule: "must be the id of an event of this feed"}
	}
	return f, nil
}

// follow writes until the reader goes, the server ends or Postgres fails: the
// reader comes again with the id of its last event, and misses nothing.
func (h *Handler) follow(ctx context.Context, draining <-chan struct{}, f *follower, w http.ResponseWriter) error {
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
	if err := send(fmt.Sprintf("retry: 1000\nid: %s\n\n", f.at)); err != nil {
		return err
	}
	tick := time.NewTicker(h.cfg.Poll)
	defer tick.Stop()
	quiet := time.Now()
	for {
		more, err := f.page(ctx, send, &quiet)
		if err != nil {
			return err
		}
		if time.Since(quiet) >= heartbeat {
			quiet = time.Now()
			if err := send(": quiet\nid: " + f.at.String() + "\n\n"); err != nil {
				return err
			}
		}
		select {
		case <-draining:
			return nil
		default:
		}
		if more {
			continue
		}
		select {
		case <-tick.C:
		case <-draining:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// page writes what has happened since, and tells whether there is more.
func (f *follower) page(ctx context.Context, send func(string) error, quiet *time.Time) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	all, err := f.store.Follow(ctx, f.at, feedPage)
	if err != nil {
		return false, err
	}
	var text []byte
	for _, t := range all {
		f.at = t.Place
		if (f.file != "" && t.Filename != f.file) || (f.stage != nil && t.Stage != *f.stage) {
			continue
		}
		line, err := json.Marshal(transitionOf(t))
		if err != nil {
			return false, fmt.Errorf("write a transition: %w", err)
		}
		text = fmt.Appendf(text, "id: %s\nevent: transition\ndata: %s\n\n", t.Place, line)
	}
	if len(text) > 0 {
		*quiet = time.Now()
		err = send(string(text))
	}
	return len(all) == feedPage, err
}

func parseStage(name string) (*shard.Stage, error) {
	if name == "" {
		return nil, nil
	}
	stage, ok := shard.ParseStage(name)
	if !ok {
		return nil, &shard.Invalid{Field: "stage", Code: "stage_unknown", Rule: "must be event-ingest, shard-splitter, shard-worker or mysql-sender"}
	}
	return &stage, nil
}

func parseShard(text string) (*int32, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = -1
	}
	if err := shard.CheckShard(n); err != nil {
		return nil, err
	}
	v := int32(n)
	return &v, nil
}

const feedText = "Server-sent events: each has the event transition, an id, and as data a transition as in GET /files/{filename}/history. " +
	"The feed begins now, or behind the event that the header Last-Event-ID (or the parameter last_event_id) names: a reader that comes again misses nothing."

func describeFeed(srv *httpapi.Server) {
	param := func(name, in, doc string) *huma.Param {
		return &huma.Param{Name: name, In: in, Description: doc, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	schema := srv.Answer("The events", Transition{}).Content["application/json"]
	srv.API().OpenAPI().AddOperation(&huma.Operation{
		OperationID: "follow-transitions", Method: http.MethodGet, Path: trackingapi.Base + "/transitions", Tags: []string{"Shards"},
		Summary: "Transitions as they happen", Description: feedText, Security: auth.Security(auth.Read),
		Parameters: []*huma.Param{
			param("stage", "query", "Only at this stage"), param("filename", "query", "Only of this file"),
			param("last_event_id", "query", "Begin behind this event"), param("Last-Event-ID", "header", "Begin behind this event"),
		},
		Responses: srv.Problems(map[string]*huma.Response{
			"200": {Description: "The events, without end", Content: map[string]*huma.MediaType{"text/event-stream": schema}},
		}, http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable),
	})
}
