package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/slowtest"
)

const prefix = "/api/pipeline/"

// behind puts a reverse proxy before a server that takes the prefix away, as
// deploy/nginx/millrace.conf does.
func behind(t testing.TB, s *server) *url.URL {
	t.Helper()
	target := &url.URL{Scheme: "http", Host: s.ports.HTTP}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}
	mux := http.NewServeMux()
	mux.Handle(prefix, http.StripPrefix(strings.TrimSuffix(prefix, "/"), proxy))
	outside := httptest.NewServer(mux)
	t.Cleanup(outside.Close)
	base, err := url.Parse(outside.URL + prefix)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// links finds what a page loads and points to.
var links = regexp.MustCompile(`(?:src|href)="([^"]+)"`)

// TestBehindPrefix holds that everything works behind a path that the server
// does not know: the page with all it loads, the API and its description, and
// the WebSocket of a page from there.
func TestBehindPrefix(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	base := behind(t, s)
	get := func(ref *url.URL) string {
		t.Helper()
		resp, err := http.Get(ref.String())
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Request.URL.Path, prefix) {
			t.Fatalf("GET %s: %d, ended at %s: %.200s %v", ref, resp.StatusCode, resp.Request.URL, text, err)
		}
		return string(text)
	}
	at := func(ref string) *url.URL {
		t.Helper()
		u, err := base.Parse(ref)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, page := range []string{".", "docs", "docs/"} {
		html := get(at(page))
		for _, link := range links.FindAllStringSubmatch(html, -1) {
			get(at(link[1])) // relative to the prefix, where both pages stand
		}
	}
	for _, path := range []string{"health", "ready", "metrics", "api/v1/funnel", "api/v1/schemas/event.json"} {
		get(at(path))
	}

	var doc struct {
		Servers []struct{ URL string }
	}
	if err := json.Unmarshal([]byte(get(at("openapi.json"))), &doc); err != nil || len(doc.Servers) != 1 {
		t.Fatal(doc, err)
	}
	api := at("openapi.json").ResolveReference(&url.URL{Path: doc.Servers[0].URL + "/"})
	resp, err := http.Post(api.JoinPath("events").String(), "application/json", strings.NewReader(valid(nil)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST to where the description says: %d", resp.StatusCode)
	}

	live := at("api/v1/live")
	live.Scheme = "ws"
	conn, _, err := websocket.DefaultDialer.Dial(live.String(), http.Header{"Origin": {"http://" + base.Host}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.WriteMessage(websocket.TextMessage,
		[]byte(`{"op":"subscribe","id":"a","view":"funnel"}`)); err != nil {
		t.Fatal(err)
	}
	awaitCount(t, conn, 1)
}
