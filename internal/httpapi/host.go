package httpapi

import (
	"net/http"
	"net/url"

	"github.com/millrace-io/millrace/internal/connlimit"
)

// refuseStrangers refuses requests that pages of strangers may have sent: whoever
// reaches an unprotected server may do everything.
func (s *Server) refuseStrangers(next http.Handler) http.Handler {
	if s.cfg.Protected {
		return next
	}
	var hosts []string
	for _, o := range s.cfg.Origins {
		if u, err := url.Parse(o); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if connlimit.OwnHost(r.Host, hosts...) {
			next.ServeHTTP(w, r)
			return
		}
		WriteProblem(w,
			NewProblem(http.StatusForbidden, "a server without AUTH_JWT_SECRET is asked by address or as localhost",
				FieldError{
					Field: "Host", Code: "host",
					Rule: "must be an address, localhost, or the host of one of MILLRACE_ALLOWED_ORIGINS",
				}))
	})
}
