package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Also answers requests at a path of the root, and below it, as those at a path of the API and below
// that: a specification may have paths of its own. The description names those of the API alone.
func (s *Server) Also(path, of string) {
	again := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext()))
		at := *r.URL
		at.Path = s.cfg.BasePath + of + strings.TrimPrefix(at.Path, path)
		if at.RawPath != "" {
			at.RawPath = s.cfg.BasePath + of + strings.TrimPrefix(at.RawPath, (&url.URL{Path: path}).EscapedPath())
		}
		r.URL = &at
		chi.RouteContext(r.Context()).RoutePath = strings.TrimPrefix(routed(&at), s.cfg.BasePath)
		s.base.ServeHTTP(w, r)
	})
	s.root.Handle(path, again)
	s.root.Handle(path+"/*", again)
}

// routed is the path by which a request is routed.
func routed(u *url.URL) string {
	if u.RawPath != "" {
		return u.RawPath
	}
	return u.Path
}
