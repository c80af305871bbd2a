package clickhouse

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/millrace-io/millrace/internal/connlimit"
)

// foreign refuses requests that a page of another site has a browser send: with
// logins that need no password, it could do whatever its visitor can. Clients
// that are no browsers say neither where they are nor for whom they ask.
func (s *Server) foreign(r *http.Request) error {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return exception(codeAccessDenied, "ACCESS_DENIED", "Pages of other sites may not send queries")
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return exception(codeAccessDenied, "ACCESS_DENIED", "Pages of other sites may not send queries")
		}
	}
	// A name that a stranger makes point here is a site of the stranger's.
	if (s.cfg.Password == "" || s.cfg.ReadOnlyPassword == "") && !connlimit.OwnHost(r.Host) {
		return exception(codeAccessDenied, "ACCESS_DENIED",
			"Without passwords, queries are taken by address or as localhost only")
	}
	return nil
}
