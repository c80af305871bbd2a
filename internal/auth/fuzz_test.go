package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// FuzzToken: nobody gets in by what has not been signed, wherever it stands.
func FuzzToken(f *testing.F) {
	signed, err := Mint(secret, "ann", []Scope{Read}, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("Bearer "+signed, "", "")
	f.Add("", signed, "")
	f.Add("", "", "bearer, "+signed)
	f.Add("Bearer eyJhbGciOiJub25lIn0.eyJzY29wZSI6ImFkbWluIn0.", "", "")
	a := New(Config{Secret: "another secret of at least 32 bytes."})
	f.Fuzz(func(t *testing.T, header, query, protocol string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Upgrade", "websocket")
		q := r.URL.Query()
		q.Set("access_token", query)
		r.URL.RawQuery = q.Encode()
		r.Header["Authorization"], r.Header["Sec-Websocket-Protocol"] = []string{header}, []string{protocol}
		for _, scope := range Scopes() {
			if caller, problem := a.check(r, fromUpgrade, scope); problem == nil {
				t.Fatalf("let in as %+v", caller)
			}
		}
	})
}
