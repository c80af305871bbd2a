package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"code.dny.dev/ssrf"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/millrace-io/millrace/internal/userqueue"
)

var (
	local = NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	call  = Call{Queue: "enrich", ID: 7, Attempt: 2, Payload: json.RawMessage(`{"row_no":3,"input":{"title":"Café <b>"}}`)}
)

func send(t *testing.T, s *Sender, w Webhook) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return s.Send(ctx, w, call)
}

// TestSigned (2): a receiver verifies a request by the library of Standard Webhooks, and refuses another body, id, time
// and secret.
func TestSigned(t *testing.T) {
	secret := NewSecret()
	var got http.Header
	var body []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	defer receiver.Close()
	a := send(t, NewSender(local, nil), Webhook{URL: receiver.URL + "/in?key=1", Secret: secret})
	if a.Status != 200 || string(a.Body) != `{"ok":true}` || a.Err != nil {
		t.Fatalf("%+v", a)
	}
	var read Call
	if err := json.Unmarshal(body, &read); err != nil || read.ID != 7 || read.Attempt != 2 || read.Queue != "enrich" ||
		!strings.Contains(string(read.Payload), "Caf") {
		t.Errorf("%s, %v", body, err)
	}
	hook, err := standardwebhooks.NewWebhook(SecretText(secret))
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Verify(body, got); err != nil || got.Get("Webhook-Id") != "enrich-7" {
		t.Errorf("%v, %v", err, got)
	}
	if hook.Verify(bytes.Replace(body, []byte(`"attempt":2`), []byte(`"attempt":3`), 1), got) == nil {
		t.Error("another body passes")
	}
	for name, value := range map[string]string{
		"Webhook-Id": "enrich-8", "Webhook-Timestamp": "1", "Webhook-Signature": "v1,AAAA",
	} {
		forged := got.Clone()
		forged.Set(name, value)
		if hook.VerifyIgnoringTimestamp(body, forged) == nil {
			t.Errorf("another %s passes", name)
		}
	}
	other, _ := standardwebhooks.NewWebhook(SecretText(NewSecret()))
	if other.Verify(body, got) == nil {
		t.Error("another secret passes")
	}
}

// TestPublicOnly (3): no address of a private network is called, however it is written.
func TestPublicOnly(t *testing.T) {
	none := NewGuard(nil)
	for _, ip := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255",
		"224.0.0.1", "198.18.0.1", "192.0.2.1", "::1", "::", "fc00::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1",
		"::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1", "2001:db8::1", "::127.0.0.1",
	} {
		addr := netip.MustParseAddr(ip)
		if none.SafeAddr(addr) == nil {
			t.Errorf("%s may be called", ip)
		}
		if a := send(t, NewSender(none, nil), Webhook{URL: "http://" + netip.AddrPortFrom(addr, 9).String(), Secret: NewSecret()}); a.Kind() != Refused {
			t.Errorf("%s: %+v", ip, a)
		}
		if none.CheckURL("https://"+netip.AddrPortFrom(addr, 443).String()+"/x") == nil {
			t.Errorf("a URL with %s is taken", ip)
		}
		if ip != "127.0.0.1" && local.SafeAddr(addr) == nil {
			t.Errorf("%s may be called where 127.0.0.0/8 may", ip)
		}
	}
	for _, ip := range []string{"93.184.215.14", "2606:4700::1111"} {
		if err := none.SafeAddr(netip.MustParseAddr(ip)); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
	}
	for _, text := range []string{
		"", "x", "/in", "ftp://shop.example/", "https://", "https://ann:pw@shop.example/", "https://shop.example/#x",
		"http://localhost:8075/api", "http://LOCALHOST./", "https://shop.example/" + strings.Repeat("x", MaxURL),
	} {
		if none.CheckURL(text) == nil {
			t.Errorf("%.60q is taken", text)
		}
	}
	if broken := none.CheckURL("https://shop.example:8443/in?x=1"); broken != nil {
		t.Errorf("%+v", broken)
	}
}

// TestNoRedirects (3): a redirect is an answer, and what it leads to is not called.
func TestNoRedirects(t *testing.T) {
	var called atomic.Int32
	behind := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer behind.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		receiver := httptest.NewServer(http.RedirectHandler(behind.URL, status))
		a := send(t, NewSender(local, nil), Webhook{URL: receiver.URL, Secret: NewSecret()})
		receiver.Close()
		if a.Kind() != Invalid || !strings.Contains(a.Report("h", 1, true, standard(t)).Error, "redirects are not followed") {
			t.Errorf("%d: %+v", status, a)
		}
	}
	if n := called.Load(); n > 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// resolver answers each question for a name with the next address of a list, as a server does that means harm.
func resolver(t *testing.T, asked *atomic.Int32, addrs ...string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buf := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
			if q.Type == dnsmessage.TypeA {
				i := min(int(asked.Add(1)), len(addrs)) - 1
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addrs[i]).As4()},
				}}
			}
			if text, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(text, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// TestRebinding (3): a name that leads to a public network when it is looked at, and to this machine when it is called,
// is not called.
func TestRebinding(t *testing.T) {
	var called, asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called.Add(1) }))
	defer inside.Close()
	u, _ := url.Parse(inside.URL)
	names := resolver(t, &asked, "93.184.215.14", "127.0.0.1")
	to := "http://shop.example:" + u.Port() + "/in"
	if broken := NewGuard(nil).CheckURL(to); broken != nil {
		t.Fatalf("%+v", broken)
	}
	if found, err := names.LookupHost(t.Context(), "shop.example"); err != nil || found[0] != "93.184.215.14" {
		t.Fatalf("%v, %v", found, err)
	}
	a := send(t, NewSender(NewGuard(nil), names), Webhook{URL: to, Secret: NewSecret()})
	if a.Kind() != Refused || !errors.Is(a.Err, ssrf.ErrProhibitedIP) || called.Load() > 0 {
		t.Errorf("%+v, called %d times", a, called.Load())
	}
	if text := a.Report("h", 1, true, standard(t)).Error; strings.Contains(text, "127.0.0.1") {
		t.Errorf("the error tells of the network inside: %s", text)
	}
	// The same name is called where the network is allowed: the guard alone has refused it.
	if a := send(t, NewSender(local, names), Webhook{URL: to, Secret: NewSecret()}); a.Status != 200 || called.Load() != 1 {
		t.Errorf("%+v, called %d times", a, called.Load())
	}
}

// TestBounded (4): an answer is read as far as a result may be long, headers without end and silence end a request.
func TestBounded(t *testing.T) {
	wait := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			for range 64 {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<20)); err != nil {
					return
				}
			}
		case "/headers":
			w.Header().Set("X", strings.Repeat("x", 2*maxHeaders))
		case "/silent":
			select {
			case <-wait:
			case <-r.Context().Done():
			}
		}
	}))
	defer receiver.Close()
	defer close(wait)
	s := NewSender(local, nil)
	if a := send(t, s, Webhook{URL: receiver.URL + "/long", Secret: NewSecret()}); len(a.Body) != userqueue.MaxResult+1 {
		t.Errorf("%d bytes are read, %v", len(a.Body), a.Err)
	}
	if a := send(t, s, Webhook{URL: receiver.URL + "/headers", Secret: NewSecret()}); a.Kind() != Network {
		t.Errorf("%+v", a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a := s.Send(ctx, Webhook{URL: receiver.URL + "/silent", Secret: NewSecret()}, call)
	if r := a.Report("h", 1, true, standard(t)); a.Kind() != Network || r.Error != "the webhook has not answered in time" || r.Class != "network" {
		t.Errorf("%+v, %+v", a, r)
	}
}

// TestSecrets: a secret that is written is read as the same bytes, and one that is too short or too long is refused.
func TestSecrets(t *testing.T) {
	secret := NewSecret()
	if read, rule := ParseSecret(SecretText(secret)); rule != "" || !bytes.Equal(read, secret) {
		t.Errorf("%x is read as %x, %s", secret, read, rule)
	}
	for _, text := range []string{"whsec_", "whsec_c2hvcnQ=", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!", SecretText(make([]byte, 65))} {
		if _, rule := ParseSecret(text); rule == "" {
			t.Errorf("%s is a secret", text)
		}
	}
}

// TestOtherClock: a wait until a time goes by the clock of the receiver that says so.
func TestOtherClock(t *testing.T) {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now().Add(-20 * time.Hour).UTC()
		w.Header().Set("Date", now.Format(http.TimeFormat))
		w.Header().Set("Retry-After", now.Add(30*time.Second).Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer receiver.Close()
	a := send(t, NewSender(local, nil), Webhook{URL: receiver.URL, Secret: NewSecret()})
	if a.RetryAfter == nil || *a.RetryAfter != 30*time.Second {
		t.Errorf("%+v", a)
	}
}
