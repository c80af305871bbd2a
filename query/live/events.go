package live

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Events serves a view as server-sent events until the reader goes or draining
// is closed. It is for readers without WebSockets; everything else holds as it
// does for those.
func (h *Hub) Events(draining <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, lose := context.WithCancel(r.Context())
		defer lose()
		seat, p := h.admit(r, lose)
		if p != nil {
			httpapi.WriteProblem(w, p)
			return
		}
		defer h.leave(seat)
		if origin := r.Header.Get("Origin"); origin != "" { // it is allowed
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Add("Vary", "Origin")
		}
		caller := auth.CallerFrom(r.Context())
		wanted, p := h.views.parseAddress(r.URL.Query(), r.Header.Get("Last-Event-ID"), caller)
		if p != nil {
			httpapi.WriteProblem(w, p)
			return
		}
		s := &eventStream{
			hub: h, wake: make(chan struct{}, 1), w: w, out: http.NewResponseController(w),
			caller: auth.CallerName(ctx), cancel: lose,
		}
		if s.sub, p = h.subscribe(s, "", wanted); p != nil {
			httpapi.WriteProblem(w, p)
			return
		}
		defer h.part(s, s.sub.feed)
		s.sub.base = 0 // event streams share their messages
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Accel-Buffering", "no") // proxies must not hold it back
		if r.Method != http.MethodHead {
			s.news()
			s.serve(ctx, caller, draining)
		}
	})
}

// eventStream is one reader of server-sent events.
type eventStream struct {
	hub    *Hub
	sub    *subscription
	wake   chan struct{} // holds a token while there may be something to send
	w      http.ResponseWriter
	out    *http.ResponseController
	caller string
	cancel context.CancelFunc
}

// news implements reader.
func (s *eventStream) news() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// name implements reader.
func (s *eventStream) name() string { return s.caller }

// lose implements reader.
func (s *eventStream) lose() { s.cancel() }

// expiry returns a channel that tells when the caller's token has expired.
func expiry(caller auth.Caller) (expired <-chan time.Time, stop func() bool) {
	if caller.Expires.IsZero() {
		return nil, func() bool { return true }
	}
	timer := time.NewTimer(time.Until(caller.Expires))
	return timer.C, timer.Stop
}

// serve writes what is new until the reader goes, its token expires, or the
// server ends. The reader resumes with the id of its last event.
func (s *eventStream) serve(ctx context.Context, caller auth.Caller, draining <-chan struct{}) {
	expired, stop := expiry(caller)
	defer stop()
	quiet := time.NewTicker(s.hub.cfg.PingInterval)
	defer quiet.Stop()
	err := s.send([]byte("retry: 1000\n\n"))
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-draining:
			return
		case <-expired:
			return
		case <-s.wake:
			err = s.sendNews()
		case <-quiet.C:
			err = s.send([]byte(": quiet\n\n"))
		}
	}
}

// sendNews sends the newest state, if the reader has not had it.
func (s *eventStream) sendNews() error {
	u, news := s.sub.next()
	switch {
	case !news:
		return nil
	case u.unchanged:
		return s.send([]byte(": nothing new\nid: " + u.at.eventID() + "\n\n"))
	case u.problem == nil:
		return s.send(u.messages.eventText(u.at))
	}
	text, err := json.Marshal(LiveError{Error: u.problem})
	if err != nil {
		return err
	}
	return s.send(append(append([]byte("data: "), text...), "\n\n"...))
}

func (s *eventStream) send(text []byte) error {
	if err := s.out.SetWriteDeadline(time.Now().Add(s.hub.cfg.WriteTimeout)); err != nil {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.out.Flush()
}
