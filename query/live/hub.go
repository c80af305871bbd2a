package live

import (
	"context"
	"log/slog"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Hub serves WebSockets. Each connection belongs to a request, and ends with
// it; feeds end with their last subscriber.
type Hub struct {
	cfg      Config
	views    map[string]View
	log      *slog.Logger
	upgrader websocket.Upgrader

	mu    sync.Mutex
	conns int
	feeds map[feedKey]*feed
	runs  sync.WaitGroup // of feeds
}

// New makes a hub for views by their names.
func New(cfg Config, views map[string]View, reg prometheus.Registerer, log *slog.Logger) (*Hub, error) {
	h := &Hub{
		cfg: cfg.withDefaults(), views: views, log: log, feeds: map[feedKey]*feed{},
		upgrader: websocket.Upgrader{
			Subprotocols: []string{auth.Subprotocol},
			// No buffers of their own: those of the HTTP server are there for as
			// long as the connection is.
			// Origins are checked before, where a refusal is a problem document.
			CheckOrigin: func(*http.Request) bool { return true },
		},
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			h.mu.Lock()
			defer h.mu.Unlock()
			return float64(value())
		})
	}
	for _, c := range []prometheus.Collector{
		gauge("millrace_live_connections", "Open WebSockets.", func() int { return h.conns }),
		gauge("millrace_live_feeds", "Distinct views that are watched.", func() int { return len(h.feeds) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// Handler serves connections until they end or draining is closed.
func (h *Hub) Handler(draining <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem := h.admit(r); problem != nil {
			httpapi.WriteProblem(w, problem)
			return
		}
		defer h.leave()
		ws, err := h.upgrader.Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has answered
		}
		newConn(h, ws, auth.CallerFrom(r.Context()).Expires).serve(r.Context(), draining)
	})
}

// admit decides whether a connection may be, and counts it.
func (h *Hub) admit(r *http.Request) *httpapi.Problem {
	if !websocket.IsWebSocketUpgrade(r) {
		return httpapi.NewProblem(http.StatusUpgradeRequired, "this is a WebSocket: connect with an upgrade").
			WithHeader("Upgrade", "websocket").WithHeader("Connection", "Upgrade")
	}
	if !originAllowed(r, h.cfg.Origins) {
		return httpapi.NewProblem(http.StatusForbidden, "pages of this origin may not connect",
			httpapi.FieldError{Field: "Origin", Code: "origin", Rule: "must be that of the server, or one that is configured"})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns >= h.cfg.Connections {
		return httpapi.NewProblem(http.StatusServiceUnavailable, "there are too many connections").WithHeader("Retry-After", "5")
	}
	h.conns++
	return nil
}

func (h *Hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns--
}

// join returns the feed of a query, with one more subscription of a
// connection. It returns nil when there are too many feeds.
func (h *Hub) join(c *conn, key feedKey, q Query) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.feeds[key]
	if f == nil {
		if len(h.feeds) >= h.cfg.Feeds {
			return nil
		}
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{key: key, view: h.views[key.view], query: q, cancel: cancel, conns: map[*conn]int{}}
		h.feeds[key] = f
		h.runs.Go(func() { f.run(ctx, h.cfg) })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns[c]++
	return f
}

// part ends a subscription, and with the last one the feed.
func (h *Hub) part(c *conn, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns[c]--; f.conns[c] == 0 {
		delete(f.conns, c)
	}
	if len(f.conns) == 0 {
		f.cancel()
		delete(h.feeds, f.key)
	}
}

// Wait returns when all feeds have ended, which they do with their
// connections.
func (h *Hub) Wait() { h.runs.Wait() }
