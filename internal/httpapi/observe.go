package httpapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// reportCause hands the cause of a problem to the frame, which logs it.
func reportCause(w http.ResponseWriter, cause error) {
	for w != nil {
		if r, ok := w.(*recorder); ok {
			r.cause = cause
			return
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = u.Unwrap()
	}
}

func newDurations(reg prometheus.Registerer) (*prometheus.HistogramVec, error) {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "millrace_http_request_duration_seconds",
		Help:    "Time to answer HTTP requests. WebSockets are not counted.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "route", "status"})
	if err := reg.Register(h); err != nil {
		return nil, fmt.Errorf("register HTTP metrics: %w", err)
	}
	return h, nil
}

// observe counts, times and logs requests, and turns a panic into a problem.
// It logs the path without the query, which may hold a token.
func (s *Server) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.active.Add(1)
		defer s.active.Done()
		start := time.Now()
		r, span := s.trace(r)
		ww := &recorder{ResponseWriter: w, patience: s.cfg.WriteTimeout}
		defer func() {
			s.record(ww, r, time.Since(start))
			endTrace(span, ww, r)
		}()
		s.serve(next, ww, r)
		ww.extend() // what is buffered is written when this returns
	})
}

// record logs a request that has been answered or cut off, and measures it.
func (s *Server) record(w *recorder, r *http.Request, took time.Duration) {
	status := cmp.Or(w.status, http.StatusOK)
	if w.cause != nil {
		level := slog.LevelError
		if r.Context().Err() != nil { // the caller has gone
			level = slog.LevelDebug
		}
		s.log.Log(r.Context(), level, "request failed", "method", r.Method, "path", r.URL.Path, "status", status,
			"cut_off", w.aborted, "error", w.cause)
	}
	s.log.LogAttrs(r.Context(), slog.LevelDebug, "request", slog.String("method", r.Method),
		slog.String("path", r.URL.Path),
		slog.Int("status", status), slog.Duration("took", took), slog.Int64("bytes", w.bytes),
		slog.String("remote", r.RemoteAddr))
	s.tellSlow(w, r, status, took)
	if status != http.StatusSwitchingProtocols {
		s.durations.WithLabelValues(method(r.Method), route(r), strconv.Itoa(status)).Observe(took.Seconds())
	}
}

// serve answers a panic with a problem.
func (s *Server) serve(next http.Handler, w *recorder, r *http.Request) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so, too
			w.aborted = true
			panic(cause)
		}
		problem, known := cause.(*Problem)
		if !known {
			s.log.Error("panic in a request", "method", r.Method, "path", r.URL.Path, "panic", cause,
				"stack", string(debug.Stack()))
			problem = NewProblem(http.StatusInternalServerError, internalError)
		}
		w.replace(problem)
	}()
	next.ServeHTTP(w, r)
}

// route returns the pattern that a request matched: paths themselves would
// make a label without bound.
func route(r *http.Request) string {
	if c := chi.RouteContext(r.Context()); c != nil {
		if p := c.RoutePattern(); p != "" && p != "/*" {
			return p
		}
	}
	return "other"
}

func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return m
	}
	return "other"
}
