package live

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// originAllowed keeps pages of other sites from using a visitor's access. A
// client that is no browser sends no Origin.
func originAllowed(r *http.Request, allowed []string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if slices.ContainsFunc(
		allowed, func(o string) bool { return strings.EqualFold(strings.TrimSuffix(o, "/"), origin) },
	) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
