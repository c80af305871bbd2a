package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"path":"` + r.URL.Path + `"}`))
	}))
	defer srv.Close()
	addr := strings.TrimPrefix(srv.URL, "http://")
	for _, c := range []struct {
		args   []string
		status int
		out    string
	}{
		{[]string{"health", "--http-addr=" + addr}, 1, `{"path":"/ready"}`},
		{[]string{"health", "--live", "--http-addr=" + addr}, 0, `{"path":"/health"}`},
		{[]string{"health", "--http-addr=127.0.0.1:1"}, 1, ""},
	} {
		var out, errOut bytes.Buffer
		if status := run(c.args, nil, &out, &errOut, 0); status != c.status || out.String() != c.out {
			t.Errorf("%q: status %d, %s%s", c.args, status, &out, &errOut)
		}
	}
}
