package ingesthttp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/auth"
)

// still is a limiter whose clock the test moves.
func still(t *testing.T, l Limits) (*limiter, *time.Time) {
	t.Helper()
	limiter, err := newLimiter(l)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 2, 10, 14, 30, 0, 0, time.UTC)
	limiter.now = func() time.Time { return now }
	return limiter, &now
}

func from(remote string, forwarded ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.RemoteAddr = remote
	r.Header["X-Forwarded-For"] = forwarded
	return r
}

func TestBatchCostsItsEvents(t *testing.T) {
	l, now := still(t, Limits{Rate: 100, Burst: 500})
	r := from("192.0.2.1:1234")
	for _, step := range []struct {
		pass       time.Duration
		events     int
		status     int
		retryAfter string
	}{
		{0, 400, 0, ""},
		{0, 150, 429, "1"}, // 50 are missing
		{0, 100, 0, ""},    // the refused batch cost nothing
		{0, 450, 429, "5"},
		{4 * time.Second, 450, 429, "1"},
		{time.Second, 450, 0, ""},
		{time.Hour, 501, 413, ""}, // no waiting would help
		{0, 500, 0, ""},
		{0, 1, 429, "1"},
	} {
		*now = now.Add(step.pass)
		status, retryAfter := 0, ""
		if p := l.take(r, step.events); p != nil {
			status, retryAfter = p.Status, p.GetHeaders().Get("Retry-After")
		}
		if status != step.status || retryAfter != step.retryAfter {
			t.Errorf("%+v: status %d, Retry-After %q", step, status, retryAfter)
		}
	}
}

func TestWhoIsCharged(t *testing.T) {
	l, _ := still(
		t, Limits{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}},
	)
	for _, c := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:1234", "", "192.0.2.1"},
		{"192.0.2.1:1234", "203.0.113.7", "192.0.2.1"}, // not a proxy of ours
		{"10.0.0.1:1234", "203.0.113.7", "203.0.113.7"},
		{"10.0.0.1:1234", "198.51.100.9, 203.0.113.7, 10.0.0.2", "203.0.113.7"},
		{"10.0.0.1:1234", "203.0.113.7:5555", "203.0.113.7"},
		{"10.0.0.1:1234", "unknown", "10.0.0.1"},
		{"10.0.0.1:1234", "", "10.0.0.1"},
		{"[2001:db8:1:2:3:4:5:6]:1234", "", "2001:db8:1:2::"},
		{"[::ffff:192.0.2.1]:1234", "", "192.0.2.1"},
		{"[fd00::1]:1234", "2001:db8::9", "2001:db8::"},
		{"@", "", "invalid IP"}, // a Unix socket
	} {
		if got := l.caller(from(c.remote, c.forwarded)); got != c.want {
			t.Errorf("%s forwarded for %q is charged to %s, want %s", c.remote, c.forwarded, got, c.want)
		}
	}
}

func TestRememberedCallersAreBounded(t *testing.T) {
	l, _ := still(t, Limits{Callers: 16, Burst: 1})
	for i := range 1000 {
		if p := l.take(from(fmt.Sprintf("192.0.%d.%d:1", i/250, i%250)), 1); p != nil {
			t.Fatal(p)
		}
	}
	if n := l.callers.Len(); n != 16 {
		t.Errorf("%d callers are remembered", n)
	}
	if p := l.take(from("192.0.3.249:1"), 1); p == nil {
		t.Error("the last caller was forgotten")
	}
}

// TestLimitIsOfEachToken holds the answer over HTTP: a problem with
// Retry-After, for one token and not for the other.
func TestLimitIsOfEachToken(t *testing.T) {
	f := startWith(t, auth.Config{Secret: secret, AnonymousIngest: true},
		Config{Timeout: time.Minute, Limits: Limits{Rate: 1e-6, Burst: 3}})
	bearer := func(sub string) string {
		token, err := auth.Mint(secret, sub, []auth.Scope{auth.EventsWrite}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return "Bearer " + token
	}
	one, other := bearer("one"), bearer("other")
	batch := text(strings.Join([]string{eventText(1), eventText(2), eventText(3)}, "\n"))
	for _, step := range []struct {
		header []string
		body   []byte
		want   int
	}{
		{[]string{"Authorization", one}, batch, 201},
		{[]string{"Authorization", one}, text(eventText(4)), 429},
		{[]string{"Authorization", other}, text(eventText(4)), 201},
		{nil, batch, 200}, // anonymous: by address; all are duplicates
		{nil, text(eventText(5)), 429},
	} {
		got := f.post("/events", linesType, step.body, step.header...)
		if got.status != step.want {
			t.Fatalf("%v: status %d, want %d: %+v", step.header, got.status, step.want, got.Problem)
		}
		if got.status != 429 {
			continue
		}
		if got.header.Get("Retry-After") == "" || len(got.Problem.Errors) != 1 || got.Problem.Errors[0].Code != "rate" {
			t.Errorf("%v %+v", got.header, got.Problem)
		}
	}
	f.wantMetrics(`pipeline_events_rejected_total{reason="rate"} 2`)
}
