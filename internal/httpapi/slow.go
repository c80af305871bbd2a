package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func newSlow(reg prometheus.Registerer) (*prometheus.CounterVec, error) {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "millrace_slow_requests_total", Help: "Requests that took MILLRACE_SLOW_REQUEST or longer.",
	}, []string{"method", "route"})
	if err := reg.Register(c); err != nil {
		return nil, fmt.Errorf("register metrics of slow requests: %w", err)
	}
	return c, nil
}

// tellSlow logs and counts a slow request, with the shape of its parameters and no value. Streams
// are as long as their readers want.
func (s *Server) tellSlow(w *recorder, r *http.Request, status int, took time.Duration) {
	if s.cfg.Slow <= 0 || took < s.cfg.Slow || status == http.StatusSwitchingProtocols ||
		strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
		return
	}
	s.slow.WithLabelValues(method(r.Method), route(r)).Inc()
	s.log.LogAttrs(r.Context(), slog.LevelWarn, "slow request", slog.String("method", method(r.Method)),
		slog.String("route", route(r)), slog.String("parameters", queryShape(r.URL.RawQuery)),
		slog.Int64("body_bytes", r.ContentLength), slog.Int("status", status), slog.Duration("took", took),
		slog.Int64("bytes", w.bytes))
}

// mostParams and longestParam bound what is logged of names that anybody may send.
const (
	mostParams   = 20
	longestParam = 40
)

// queryShape says which parameters there are, and how long their values.
func queryShape(raw string) string {
	query, _ := url.ParseQuery(raw) // what can be parsed
	var shapes []string
	for name, values := range query {
		size := 0
		for _, v := range values {
			size += len(v)
		}
		shapes = append(shapes, fmt.Sprintf("%.*s(%d)", longestParam, name, size))
	}
	slices.Sort(shapes)
	return strings.Join(shapes[:min(len(shapes), mostParams)], ", ")
}
