package httpapi

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// writeSize is what a caller has WriteTimeout to read, in bytes.
const writeSize = 64 << 10

// recorder keeps what a handler answered, and gives up on callers that do not
// read it. It passes on the abilities of the connection: to be flushed, hijacked,
// and given deadlines.
type recorder struct {
	http.ResponseWriter
	patience time.Duration // for each writeSize bytes
	bounded  atomic.Bool   // the handler sets deadlines of its own
	status   int           // 0 until the header is written
	bytes    int64
	cause    error // what a problem hides from the caller
	aborted  bool  // the connection is closed in the middle of the answer
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	for n := 0; ; {
		r.extend()
		m, err := r.ResponseWriter.Write(p[n:min(n+writeSize, len(p))])
		n += m
		r.bytes += int64(m)
		if err != nil || n >= len(p) {
			return n, err
		}
	}
}

// extend gives the caller time to read what is written next.
func (r *recorder) extend() {
	if !r.bounded.Load() && r.status != http.StatusSwitchingProtocols {
		// a test's recorder has none
		_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(r.patience))
	}
}

// SetWriteDeadline puts the handler's deadline in the place of the frame's.
func (r *recorder) SetWriteDeadline(at time.Time) error {
	r.bounded.Store(true)
	return http.NewResponseController(r.ResponseWriter).SetWriteDeadline(at)
}

// replace answers with a problem instead of what the handler was about to answer. If part
// of that has been sent, it closes the connection, so that no client takes the part for the
// whole answer.
func (r *recorder) replace(p *Problem) {
	if r.status != 0 {
		if r.cause, r.aborted = p.cause, true; r.cause == nil {
			r.cause = p // which nobody else sees
		}
		panic(http.ErrAbortHandler)
	}
	for _, name := range [...]string{"Content-Encoding", "Content-Disposition", "Cache-Control", "Trailer"} {
		r.Header().Del(name)
	}
	WriteProblem(r, p)
}

// Flush implements http.Flusher.
func (r *recorder) Flush() {
	r.extend()
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.status = http.StatusSwitchingProtocols
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController find the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
