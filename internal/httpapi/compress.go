package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// newCompressor returns the middleware that compresses answers for callers that
// take gzip or zstd. Short answers, server-sent events and WebSockets it leaves
// as they are.
//
// A compressor holds some hundreds of kilobytes, and as many callers as there may
// be connections can read slowly. So what is compressed waits in memory, which is
// less than the answer itself, and the compressor is another's before the first
// byte is sent.
func newCompressor() (func(http.Handler) http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(gzhttp.ContentTypeFilter(compresses), gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		return nil, fmt.Errorf("compress answers: %w", err)
	}
	return func(next http.Handler) http.Handler {
		compressed := wrap(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				next.ServeHTTP(w, r)
				return
			}
			held := &holder{ResponseWriter: w}
			compressed.ServeHTTP(held, r)
			_ = held.release() // a caller that has gone is no error of ours
		})
	}, nil
}

func compresses(contentType string) bool {
	return contentType != eventStream && gzhttp.DefaultContentTypeFilter(contentType)
}

// eventStream is the type of server-sent events: each has to arrive at once.
const eventStream = "text/event-stream"

// maxWaiting is how much of a compressed answer waits. The rest of a longer one
// is sent as it is made.
const maxWaiting = 1 << 20

// holder holds a compressed answer until it is released, or as long as it may be.
type holder struct {
	http.ResponseWriter
	waiting  bytes.Buffer
	released bool
}

func (h *holder) Write(p []byte) (int, error) {
	if h.released || h.Header().Get("Content-Encoding") == "" {
		return h.ResponseWriter.Write(p)
	}
	if h.waiting.Len()+len(p) > maxWaiting {
		if err := h.release(); err != nil {
			return 0, err
		}
		return h.ResponseWriter.Write(p)
	}
	return h.waiting.Write(p)
}

// release sends what waits. What is written from then on is sent at once.
func (h *holder) release() error {
	h.released = true
	if h.waiting.Len() == 0 {
		return nil
	}
	_, err := h.ResponseWriter.Write(h.waiting.Bytes())
	h.waiting = bytes.Buffer{}
	return err
}

// Flush implements http.Flusher.
func (h *holder) Flush() {
	if h.release() == nil {
		_ = http.NewResponseController(h.ResponseWriter).Flush()
	}
}

// Hijack implements http.Hijacker.
func (h *holder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return http.NewResponseController(h.ResponseWriter).Hijack()
}

// Unwrap lets http.ResponseController find the connection.
func (h *holder) Unwrap() http.ResponseWriter { return h.ResponseWriter }
