package live

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/metric"
)

// Hub serves WebSockets and event streams. A WebSocket outlives the request that
// it began as, whose buffers and stack are released. Feeds compute for as long as
// they have readers.
type Hub struct {
	cfg      Config
	views    registry
	log      *slog.Logger
	upgrader websocket.Upgrader
	epoch    string // of this process
	seats    *Seats // of WebSockets and event streams

	mu      sync.Mutex
	sockets map[*conn]struct{} // WebSockets
	quiet   chan struct{}      // is closed when there is none
	feeds   map[feedKey]*feed  // those that are remembered without readers, too
	watched int                // feeds with readers
	made    uint64             // feeds so far
	ending  bool
	runs    sync.WaitGroup // of connections and feeds
}

// readBuffer fits a usual request; the bytes of a longer one are read past it.
const readBuffer = 512

// New makes a hub for views.
func New(cfg Config, views []View, reg prometheus.Registerer, log *slog.Logger) (*Hub, error) {
	registered, err := newRegistry(views)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	h := &Hub{
		cfg: cfg, views: registered, log: log, seats: NewSeats(cfg.Connections),
		sockets: map[*conn]struct{}{}, feeds: map[feedKey]*feed{}, epoch: strings.ToLower(rand.Text()[:10]),
		upgrader: websocket.Upgrader{
			Subprotocols: []string{auth.Subprotocol},
			// The HTTP server's buffers are larger than an idle connection needs.
			ReadBufferSize: readBuffer, WriteBufferPool: &sync.Pool{},
			// Origins are checked before, where a refusal is a problem document.
			CheckOrigin:       func(*http.Request) bool { return true },
			EnableCompression: cfg.Compress,
		},
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			return float64(value())
		})
	}
	return h, metric.Register(reg,
		gauge("millrace_live_connections", "Open WebSockets and event streams of views.", h.seats.Taken),
		gauge("millrace_live_feeds", "Distinct views that are watched.", func() int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.watched
		}))
}

// Handler serves WebSockets until they end or draining is closed.
func (h *Hub) Handler(draining <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			p := httpapi.NewProblem(http.StatusUpgradeRequired, "this is a WebSocket: connect with an upgrade")
			httpapi.WriteProblem(w, p.WithHeader("Upgrade", "websocket").WithHeader("Connection", "Upgrade"))
			return
		}
		c := newConn(r.Context(), h)
		seat, problem := h.admit(r, c.lose)
		if problem != nil {
			httpapi.WriteProblem(w, problem)
			return
		}
		taken := &hijacker{ResponseWriter: w, behind: c.writer.start}
		ws, err := h.upgrader.Upgrade(taken, r, nil)
		if err != nil {
			h.leave(seat)
			return // Upgrade has answered
		}
		c.ws, c.socket, c.deflates = ws, taken.socket, h.cfg.Compress && offersDeflate(r.Header)
		go func() {
			defer h.leave(seat)
			h.keep(c, draining)
		}()
	})
}

// keep serves a WebSocket until it ends or draining is closed.
func (h *Hub) keep(c *conn, draining <-chan struct{}) {
	h.mu.Lock()
	h.sockets[c] = struct{}{}
	if len(h.sockets) == 1 {
		h.quiet = make(chan struct{})
		quiet := h.quiet
		h.runs.Go(func() { h.drain(draining, quiet) })
	}
	lost := c.lost
	h.mu.Unlock()
	if lost {
		c.endLost()
	}
	select {
	case <-draining: // and those before may have been told so already
		c.end(websocket.CloseGoingAway, "")
	default:
	}
	c.serve()
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.sockets, c); len(h.sockets) == 0 {
		close(h.quiet)
	}
}

// drain ends all WebSockets when draining is closed. It returns then, or when
// there are none: one goroutine waits for all of them.
func (h *Hub) drain(draining, quiet <-chan struct{}) {
	select {
	case <-draining:
	case <-quiet:
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.sockets {
		h.runs.Go(func() { c.end(websocket.CloseGoingAway, "") })
	}
}

// offersDeflate tells whether a client offers permessage-deflate, which the
// upgrader then accepts.
func offersDeflate(header http.Header) bool {
	for _, line := range header.Values("Sec-WebSocket-Extensions") {
		for offer := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(offer, ";")
			if strings.TrimSpace(name) == "permessage-deflate" {
				return true
			}
		}
	}
	return false
}

// admit decides whether there may be a connection, and gives it a seat. Lose ends the
// connection when another caller gets the seat.
func (h *Hub) admit(r *http.Request, lose func()) (*Seat, *httpapi.Problem) {
	if !originAllowed(r, h.cfg.Origins) {
		return nil, httpapi.NewProblem(http.StatusForbidden, "pages of this origin may not connect",
			httpapi.FieldError{
				Field: "Origin", Code: "origin", Rule: "must be that of the server, or one that is configured",
			})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending {
		return nil, httpapi.NewProblem(http.StatusServiceUnavailable, "the server stops").WithHeader("Retry-After", "5")
	}
	seat, ok := h.seats.Take(auth.CallerName(r.Context()), lose)
	if !ok {
		return nil, httpapi.NewProblem(http.StatusServiceUnavailable, "there are too many connections").
			WithHeader("Retry-After", "5")
	}
	h.runs.Add(1)
	return seat, nil
}

func (h *Hub) leave(seat *Seat) {
	seat.Leave()
	h.runs.Done()
}

// join returns the feed of a question, with one more subscription of a reader.
// It returns nil when there are too many feeds.
func (h *Hub) join(r reader, v View, question string, source Source) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := feedKey{v.Name, question}
	f := h.feeds[key]
	if f == nil {
		if len(h.feeds) >= h.cfg.Feeds && !h.evict() && !h.evictGreediest(r.name()) {
			return nil
		}
		h.made++
		f = &feed{
			key: key, epoch: fmt.Sprintf("%s.%d", h.epoch, h.made), made: h.made, source: source, every: v.Every, log: h.log,
			readers: map[reader]int{},
		}
		f.every = cmp.Or(f.every, h.cfg.Refresh)
		h.feeds[key] = f
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 {
		h.start(f)
	}
	f.readers[r]++
	return f
}

// start has a feed compute. The locks are held.
func (h *Hub) start(f *feed) {
	if f.idle != nil {
		f.idle.Stop()
	}
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	h.watched++
	h.runs.Go(func() { f.run(ctx, h.cfg) })
}

// part ends a subscription, and with the last one the feed's computing. The feed
// keeps its place in the sequence for a while.
func (h *Hub) part(r reader, f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.readers[r]--; f.readers[r] == 0 {
		delete(f.readers, r)
	}
	if len(f.readers) > 0 {
		return
	}
	f.cancel()
	f.fresh, f.frame.messages, f.since = false, nil, time.Now()
	f.idle = time.AfterFunc(h.cfg.Linger, func() { h.forget(f) })
	h.watched--
}

// forget drops a feed, unless it has readers again.
func (h *Hub) forget(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) == 0 && h.feeds[f.key] == f {
		delete(h.feeds, f.key)
	}
}

// evict drops the feed that has had no readers for longest; false when all have
// some. The lock is held: no feed changes from having readers to having none, or
// back.
func (h *Hub) evict() bool {
	var oldest *feed
	for _, f := range h.feeds {
		f.mu.Lock()
		if len(f.readers) == 0 && (oldest == nil || f.since.Before(oldest.since)) {
			oldest = f
		}
		f.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	oldest.idle.Stop()
	delete(h.feeds, oldest.key)
	return true
}

// evictGreediest drops a feed of the caller who alone watches most feeds, with the connections
// that watch it, if that caller still has at least as many as another who gets one more: false
// when nobody has. The lock is held.
func (h *Hub) evictGreediest(caller string) bool {
	own := map[string][]*feed{} // by the caller who alone watches it
	for _, f := range h.feeds {
		if name, alone := f.onlyCaller(); alone {
			own[name] = append(own[name], f)
		}
	}
	var most []*feed
	for _, feeds := range own {
		if len(feeds) > max(len(own[caller])+1, len(most)) {
			most = feeds
		}
	}
	if most == nil {
		return false
	}
	newest := slices.MaxFunc(most, func(a, b *feed) int { return cmp.Compare(a.made, b.made) })
	delete(h.feeds, newest.key)
	newest.loseReaders()
	return true
}

// Wait takes no more connections, and returns when all of them and their feeds
// have ended: soon after their handler drains.
func (h *Hub) Wait() {
	h.mu.Lock()
	h.ending = true
	h.mu.Unlock()
	h.runs.Wait()
}
