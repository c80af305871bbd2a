package clickhouse

import (
	"net/http/httptest"
	"testing"
)

func TestForeign(t *testing.T) {
	open, closed := Server{}, Server{cfg: Config{Password: "p", ReadOnlyPassword: "q"}}
	for _, c := range []struct {
		host, origin, site string
		open, closed       bool // whether it is taken
	}{
		{"127.0.0.1:8123", "", "", true, true},
		{"localhost:8123", "", "", true, true},
		{"[::1]:8123", "", "", true, true},
		{"localhost", "", "none", true, true},
		{"127.0.0.1:8123", "http://127.0.0.1:8123", "same-origin", true, true},
		{"127.0.0.1:8123", "https://evil.example", "cross-site", false, false},
		{"127.0.0.1:8123", "https://evil.example", "", false, false},
		{"127.0.0.1:8123", "", "cross-site", false, false}, // a picture's address
		{"127.0.0.1:8123", "http://127.0.0.1:8075", "same-site", false, false},
		{"127.0.0.1:8123", "null", "", false, false},
		{"127.0.0.1:8123", "http://%zz", "", false, false},
		{"evil.example:8123", "http://evil.example:8123", "same-origin", false, true},
		{"evil.example:8123", "", "", false, true},
		{"clickhouse", "", "", false, true},
	} {
		r := httptest.NewRequest("POST", "/?user=default", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if err := open.foreign(r); (err == nil) != c.open {
			t.Errorf("without passwords: %+v: %v", c, err)
		}
		if err := closed.foreign(r); (err == nil) != c.closed {
			t.Errorf("with passwords: %+v: %v", c, err)
		}
	}
}
