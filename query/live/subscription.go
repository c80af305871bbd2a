package live

import (
	"net/http"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// reader is who has subscriptions: a WebSocket or an event stream.
type reader interface {
	// news tells it that a feed has something new. It must not wait for anybody
	// to read.
	news()
	// name is that of its caller.
	name() string
	// lose ends its connection because others need what it takes. It may wait for the client.
	lose()
}

// subscription is a reader's interest in a feed. What stands below the
// feed is used by the one who sends to the reader.
type subscription struct {
	id   string
	feed *feed

	counts  bool   // seq counts what this subscription was sent (invariant 7)
	seq     uint64 // that was sent last, while it counts
	base    uint64 // by how much its sequence is behind the feed's, else
	has     uint64 // the feed's snapshot that its reader came with; 0: none
	version uint64 // of the frame that was sent last
}

// subscribe joins the feed of what is wished for. The feed may have a frame
// already, of which it does not tell the reader.
func (h *Hub) subscribe(r reader, id string, w wish) (*subscription, *httpapi.Problem) {
	key, source, p := w.view.Open(w.caller, w.values)
	if p != nil {
		return nil, p
	}
	f := h.join(r, w.view, key, source)
	if f == nil {
		return nil, httpapi.NewProblem(http.StatusServiceUnavailable, "too many different views are being watched").
			WithHeader("Retry-After", "5")
	}
	s := &subscription{id: id, feed: f, counts: w.after == nil}
	if !s.counts {
		s.has, s.base, _ = f.locate(*w.after)
	}
	return s, nil
}

// update is what a reader has to be told.
type update struct {
	at        snapshotID
	messages  *messages
	unchanged bool             // the reader has the snapshot with this id
	problem   *httpapi.Problem // in place of a snapshot
}

// next returns the newest state that the reader has not been told of; false
// when there is none.
func (s *subscription) next() (u update, news bool) {
	f := s.feed.latest()
	if f.version == s.version {
		return u, false
	}
	first := s.version == 0
	s.version = f.version
	if f.problem != nil {
		return update{problem: f.problem}, true
	}
	if s.counts {
		s.seq++
		s.base = f.seq - s.seq
	}
	return update{
		at: snapshotIDOf(s.feed.epoch, f.seq, s.base), messages: f.messages,
		unchanged: first && f.seq == s.has,
	}, true
}
