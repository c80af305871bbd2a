package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// WriteJSON answers a request with a JSON document, or with status 500 if v cannot be encoded.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		WriteProblem(w, unencodable(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A caller that has gone away is no error of ours.
	_, _ = w.Write(append(text, '\n'))
}

// LimitBody is the middleware of a plain route with a body: reading more than
// limit bytes fails, and so does reading for too long. BodyProblem
// turns either error into its problem.
func LimitBody(limit int64) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > limit {
				drain(r)
				WriteProblem(w, TooLarge(limit))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			next.ServeHTTP(w, r)
		})
	}
}

// drain reads a body that is refused: a client that is still writing when the
// connection closes may never see the answer. One that waits to be told to
// write is told no at once.
func drain(r *http.Request) {
	const most = 64 << 20
	if r.Header.Get("Expect") == "" && r.ContentLength <= most {
		_, _ = io.CopyN(io.Discard, r.Body, most)
	}
}

// limitBodyTime sets the deadline of every request's body.
func (s *Server) limitBodyTime(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			conn := http.NewResponseController(w)
			if conn.SetReadDeadline(time.Now().Add(s.cfg.BodyTimeout)) == nil {
				r.Body = &timedBody{r.Body, conn}
			}
		}
		next.ServeHTTP(w, r)
	})
}

// timedBody lifts the deadline when the body has been read. Left in place it
// would pass while a long answer is being written, and the server would take
// that for a caller who has gone.
type timedBody struct {
	io.ReadCloser
	conn *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}
