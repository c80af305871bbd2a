package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"

	"github.com/millrace-io/millrace/internal/slowtest"
)

const attackSecret = "0123456789abcdef0123456789abcdef"

// TestAttacks holds the promise that whatever strangers send is refused or
// bounded, and that it disturbs nobody: while they are at it, a publisher is
// acknowledged and a reader is answered in time.
func TestAttacks(t *testing.T) {
	t.Parallel()
	s := up(t, "AUTH_JWT_SECRET="+attackSecret, silence)
	stop := s.regular()
	t.Run("group", func(t *testing.T) {
		var all sync.WaitGroup // no t.Parallel: they would wait for room until other tests have ended
		for name, attack := range map[string]func(*testing.T, *server){
			"tokens": testTokens, "expiry": testExpiry, "origin": testOrigin, "parameters": testParameters,
			"commands": testCommands, "sources": testSources,
			"bodies": testBodies, "pipelined requests": testPipelined, "slow headers": testSlowHeaders,
			"slow bodies":    testSlowBodies,
			"slow strangers": testSlowStrangers, "frames": testFrames, "deaf subscribers": testDeafSubscribers,
			"messages": testMessages, "forgeries": testForgeries, "silence": testSilence, "statements": testStatements,
			"analysts": testAnalysts, "times": testTimes,
			"batches": testBatches, "lifted limits": testLiftedLimits,
		} {
			all.Go(func() { t.Run(name, func(t *testing.T) { attack(t, s) }) })
		}
		all.Wait()
	})
	// by themselves: they leave NATS little time for others
	t.Run("pulls", func(t *testing.T) { testPulls(t, s) })
	t.Run("protected pulls", func(t *testing.T) { testProtectedPulls(t, s) })
	t.Run("floods", func(t *testing.T) { testFloods(t, s) })
	// by themselves: others replay dead letters, too
	t.Run("producers", func(t *testing.T) { testProducers(t, s, "") })
	// by themselves: ClickHouse is away for a moment
	t.Run("endless statements", func(t *testing.T) { testEndless(t, s) })
	// by themselves: others would be measured, too
	t.Run("greedy analysts", func(t *testing.T) { testGreedyAnalysts(t, s) })
	// by itself: what it exports takes long to store
	t.Run("slow exports", func(t *testing.T) { testSlowExports(t, s) })
	// by themselves: they take all connections
	t.Run("slow queries", func(t *testing.T) { testSlowQueries(t, s) })
	t.Run("idle sockets", func(t *testing.T) { testIdleSockets(t, s) }) // by itself: it leaves no room for others
	t.Run("protected", testProtected)
	regular := stop()
	t.Logf("while attacked, a publisher and a reader: %d events published and read", regular.published)
	regular.check(t)
	poll(t, waitLimit, "all that the publisher sent to be counted", func() bool {
		status, body := s.with(t, token(t, "read"), http.MethodGet, "/funnel?period=24h&source=regular", "")
		var f funnel
		return status == http.StatusOK && json.Unmarshal(body, &f) == nil && f.Stages[0].Events == regular.published
	})
}

// TestAttacksWithoutLogins has strangers attack an installation as "millrace up" makes it,
// which asks nobody for a token.
func TestAttacksWithoutLogins(t *testing.T) {
	slowtest.Mark(t)
	t.Parallel()
	s := up(t)
	stop := s.regular()
	for name, attack := range map[string]func(*testing.T, *server){
		"times": testTimes, "slow exports": testSlowExports, "slow queries": testSlowQueries,
	} {
		t.Run(name, func(t *testing.T) { attack(t, s) })
	}
	regular := stop()
	if regular.published == 0 {
		t.Error("nothing was published meanwhile")
	}
	regular.check(t)
}

// token is signed with the server's secret and holds for an hour.
func token(t *testing.T, scope string) string {
	t.Helper()
	return sign(t, attackSecret, jwt.SigningMethodHS256,
		jwt.MapClaims{"sub": "t", "scope": scope, "exp": time.Now().Add(time.Hour).Unix()})
}

// respelled is a token whose last character has bits that its signature has not.
func respelled(token string) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	return token[:last] + string(digits[strings.IndexByte(digits, token[last])|1])
}

func sign(t *testing.T, secret string, method jwt.SigningMethod, claims jwt.MapClaims) string {
	t.Helper()
	var key any = []byte(secret)
	if method == jwt.SigningMethodNone {
		key = jwt.UnsafeAllowNoneSignatureType
	}
	text, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// with sends a request with a token, none where it is empty.
func (s *server) with(t *testing.T, token, method, target, body string) (status int, answer []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // an event stream has no end
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.url(api+target), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer
}

// traffic counts what one publisher and one reader have had.
type traffic struct {
	published int // events that were acknowledged
	patience      // of both
}

// regular publishes and reads until the function it returns is called.
func (s *server) regular() (stop func() *traffic) {
	t := s.t.(*testing.T)
	writer, reader := token(t, "events:write"), token(t, "read")
	end, done := make(chan struct{}), make(chan struct{})
	var seen traffic
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
			}
			begin := time.Now()
			event := valid(map[string]any{
				"source_name": "regular", "article_url": fmt.Sprint("https://example.com/regular/", seen.published),
			})
			post := func() (int, []byte) { return s.with(t, writer, http.MethodPost, "/events", event) }
			// One that was stored though its answer was lost is a duplicate.
			if status, body := seen.patient(t, "an event", post); status != http.StatusCreated && status != http.StatusOK {
				t.Errorf("a publisher got status %d: %.200s", status, body)
				return
			}
			seen.published++
			status, body := s.with(t, reader, http.MethodGet, "/funnel", "")
			seen.count(status == http.StatusServiceUnavailable)
			if status != http.StatusOK && status != http.StatusServiceUnavailable {
				t.Errorf("a reader got status %d: %.200s", status, body)
				return
			}
			if took := time.Since(begin); took > waitLimit/3 {
				t.Errorf("a publisher and a reader waited %s", took)
			}
		}
	}()
	return func() *traffic {
		close(end)
		<-done
		return &seen
	}
}

// operation is one of the API as it describes itself.
type operation struct {
	Security   []map[string][]string
	Parameters []struct{ Name, In string }
}

// operations lists them by method and path.
func (s *server) operations(t *testing.T) map[[2]string]operation {
	t.Helper()
	resp, err := http.Get(s.url("/openapi.json"))
	status, _, body := s.read(resp, err)
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(body, &doc); err != nil || status != http.StatusOK {
		t.Fatalf("status %d: %v", status, err)
	}
	all := map[[2]string]operation{}
	for path, methods := range doc.Paths {
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			var op operation
			if methods[method] == nil {
				continue
			}
			if err := json.Unmarshal(methods[method], &op); err != nil {
				t.Fatalf("%s %s: %v", method, path, err)
			}
			all[[2]string{strings.ToUpper(method), path}] = op
		}
	}
	if len(all) < 12 {
		t.Fatalf("%d operations are described", len(all))
	}
	return all
}

// testTokens: what needs a scope is refused without a token, with one that is
// wrong, and with one that has all other scopes.
func testTokens(t *testing.T, s *server) {
	hour := time.Now().Add(time.Hour).Unix()
	admin := func(extra jwt.MapClaims) jwt.MapClaims {
		claims := jwt.MapClaims{"sub": "t", "scope": "admin", "exp": hour}
		maps.Copy(claims, extra)
		return claims
	}
	bad := map[string]string{
		"none":        "",
		"nonsense":    "nonsense",
		"another key": sign(t, strings.Repeat("x", 32), jwt.SigningMethodHS256, admin(nil)),
		"expired": sign(t, attackSecret, jwt.SigningMethodHS256,
			admin(jwt.MapClaims{"exp": time.Now().Add(-time.Hour).Unix()})),
		"not yet valid": sign(t, attackSecret, jwt.SigningMethodHS256, admin(jwt.MapClaims{"nbf": hour})),
		"unsigned":      sign(t, "", jwt.SigningMethodNone, admin(nil)),
		"HS512":         sign(t, attackSecret, jwt.SigningMethodHS512, admin(nil)),
		"without end":   sign(t, attackSecret, jwt.SigningMethodHS256, jwt.MapClaims{"sub": "t", "scope": "admin"}),
		"no key":        sign(t, "", jwt.SigningMethodHS256, admin(nil)),
		"odd scope": sign(t, attackSecret, jwt.SigningMethodHS256,
			admin(jwt.MapClaims{"scope": map[string]bool{"admin": true}})),
		"another spelling": respelled(sign(t, attackSecret, jwt.SigningMethodHS256, admin(nil))),
		"from tomorrow":    sign(t, attackSecret, jwt.SigningMethodHS256, admin(jwt.MapClaims{"iat": hour})),
	}
	scopes := []string{"events:write", "events:backfill", "read", "work"}
	for at, op := range s.operations(t) {
		if len(op.Security) == 0 {
			continue
		}
		target := pathOf(at[1], "x")
		for name, text := range bad {
			if status, _ := s.with(t, text, at[0], target, "{}"); status != http.StatusUnauthorized {
				t.Errorf("%s %s with token %q: status %d, want 401", at[0], target, name, status)
			}
		}
		unscoped := sign(t, attackSecret, jwt.SigningMethodHS256,
			jwt.MapClaims{"sub": "t", "exp": hour, "aud": "another service", "scope": "administrator ADMIN read,work"})
		if status, _ := s.with(t, unscoped, at[0], target, "{}"); status != http.StatusForbidden {
			t.Errorf("%s %s with scopes of another service: status %d, want 403", at[0], target, status)
		}
		var needed []string // any of them
		for _, one := range op.Security {
			needed = append(needed, one["bearer"]...)
		}
		others := slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool {
			return slices.Contains(needed, scope) || scope == "work" && slices.Contains(needed, "uploads") // it implies that
		})
		if status, body := s.with(t, token(t, strings.Join(others, " ")),
			at[0], target, "{}"); status != http.StatusForbidden {
			t.Errorf("%s %s without %v: status %d, want 403: %.200s", at[0], target, needed, status, body)
		}
	}
	for name, text := range bad {
		want := http.StatusUnauthorized
		for way, conn := range map[string]func() (*websocket.Conn, *http.Response, error){
			"header": func() (*websocket.Conn, *http.Response, error) {
				return s.live(t, "", http.Header{"Authorization": {"Bearer " + text}})
			},
			"query": func() (*websocket.Conn, *http.Response, error) { return s.live(t, "?access_token="+text, nil) },
			"subprotocol": func() (*websocket.Conn, *http.Response, error) {
				return s.live(t, "", http.Header{"Sec-Websocket-Protocol": {"bearer, " + text}})
			},
		} {
			if _, resp, err := conn(); err == nil || resp == nil || resp.StatusCode != want {
				t.Errorf("a WebSocket with token %q in its %s: %+v, %v, want status %d", name, way, resp, err, want)
			}
		}
	}
	if _, resp, err := s.live(t, "?access_token="+token(t, "events:write"), nil); err == nil || resp == nil ||
		resp.StatusCode != http.StatusForbidden {
		t.Errorf("a WebSocket without the scope: %+v, %v, want status 403", resp, err)
	}
}

// live opens a WebSocket.
func (s *server) live(t *testing.T, query string, header http.Header) (*websocket.Conn, *http.Response, error) {
	return websocket.DefaultDialer.DialContext(t.Context(), "ws://"+s.ports.HTTP+api+"/live"+query, header)
}

// pathOf fills a path's parameters.
func pathOf(path, value string) string {
	var b strings.Builder
	for i, part := range strings.Split(strings.TrimPrefix(path, api), "/") {
		if i > 0 {
			b.WriteByte('/')
		}
		if strings.HasPrefix(part, "{") {
			part = url.PathEscape(value)
		}
		b.WriteString(part)
	}
	return b.String()
}

func testOrigin(t *testing.T, s *server) {
	for origin, want := range map[string]int{
		"https://evil.example": http.StatusForbidden, "null": http.StatusForbidden,
		"http://" + s.ports.HTTP + ".evil.example": http.StatusForbidden,
		"http://" + s.ports.HTTP:                   http.StatusSwitchingProtocols,
	} {
		header := http.Header{"Origin": {origin}, "Authorization": {"Bearer " + token(t, "read")}}
		conn, resp, err := s.live(t, "", header)
		if resp == nil || resp.StatusCode != want {
			t.Errorf("origin %s: %v, %v, want status %d", origin, resp, err, want)
		}
		if err == nil {
			conn.Close()
		}
	}
	for at := range s.operations(t) {
		for _, method := range []string{at[0], http.MethodOptions} {
			req, err := http.NewRequestWithContext(t.Context(), method, s.url(api+pathOf(at[1], "x")),
				strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			// What a browser sends for a page of another site without asking first.
			req.Header = http.Header{
				"Origin": {"https://evil.example"}, "Content-Type": {"text/plain"},
				"Access-Control-Request-Method": {at[0]},
			}
			if method == http.MethodGet {
				req.Header.Set("Authorization", "Bearer "+token(t, "read"))
				req.Header.Set("Last-Event-ID", "nonsense") // so that a feed ends
			} else {
				req.Header.Set("Authorization", "Bearer "+token(t, "admin"))
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if len(resp.Header.Values("Access-Control-Allow-Origin")) > 0 ||
				method == http.MethodPost && resp.StatusCode != http.StatusUnsupportedMediaType {
				t.Errorf("%s %s for a page of another site: %s, %v", method, at[1], resp.Status, resp.Header)
			}
		}
	}
}

// nasty are values that mean something to SQL, to subjects, or to nobody.
func nasty() []string {
	return []string{
		`'; DROP TABLE events; --`, `' OR '1'='1`, `" OR ""="`, `\`, `\'`, "`", `%`, `_`, `*`, `>`, `events.>`, `a.b.*`,
		` `, `a b`, "a\tb", "a\r\nX: y",
		"\x00", "\xff\xfe", `{}`, `[]`, `null`, `-1`, `0`, `1e309`, `99999999999999999999`, `NaN`, `../../etc/passwd`,
		`%2e%2e%2f`, `$JS.API.STREAM.DELETE.EVENTS`,
		`UTC'; SELECT sleep(3)`, `2026-02-30T00:00:00Z`, strings.Repeat("a", 5000), strings.Repeat("🦀", 300),
		`eyJhbGciOiJub25lIn0`, `)(`, `{source:String}`, `@@version`, `--`,
	}
}

// testParameters: no parameter of any operation that reads makes the server
// fail, whatever it says, and tables and streams are there afterwards. Operations
// share their parameters, so that each says a third of it. MILLRACE_LONG=1 has each
// say all.
func testParameters(t *testing.T, s *server) {
	reader := token(t, "admin")
	share := 3
	if os.Getenv("MILLRACE_LONG") != "" {
		share = 1
	}
	for at, op := range s.operations(t) {
		if at[0] != http.MethodGet || strings.Contains(at[1], "/live") || strings.Contains(at[1], "transitions") {
			continue // those two stream
		}
		for i, value := range nasty() {
			for k, p := range op.Parameters {
				if p.In != "query" || (i+k+len(at[1]))%share != 0 {
					continue
				}
				target := pathOf(at[1], "x") + "?" + p.Name + "=" + url.QueryEscape(value)
				if status, body := s.get(t, reader, target); status >= 500 {
					t.Errorf("GET %s: status %d: %.300s", target, status, body)
				}
			}
			if strings.Contains(at[1], "{") && value != " " {
				if status, body := s.get(t, reader, pathOf(at[1], value)); status >= 500 {
					t.Errorf("GET %s with %q: status %d: %.300s", at[1], value, status, body)
				}
			}
		}
	}
	for _, table := range []string{"events", "funnel", "articles", "journeys"} {
		s.ask("SELECT count() FROM " + table)
	}
}

// patient is retry for a request that has an answer.
func (p *patience) patient(t *testing.T, what string, ask func() (int, []byte)) (status int, answer []byte) {
	t.Helper()
	p.retry(t, what, func() (busy bool) {
		status, answer = ask()
		return status == http.StatusServiceUnavailable
	})
	return status, answer
}

// get reads from the API with a token.
func (s *server) get(t *testing.T, token, target string) (status int, answer []byte) {
	t.Helper()
	return s.patient(t, "GET "+target, func() (int, []byte) { return s.with(t, token, http.MethodGet, target, "") })
}

// testSources: a source may have any name, counts under it alone, and reaches
// no other subject.
func testSources(t *testing.T, s *server) {
	writer, reader := token(t, "events:write"), token(t, "read")
	var names []string
	for _, name := range nasty() {
		event := valid(
			map[string]any{
				"source_name": "nasty " + name,
				"article_url": fmt.Sprint("https://example.com/nasty/", len(names)),
			},
		)
		post := func() (int, []byte) { return s.with(t, writer, http.MethodPost, "/events", event) }
		switch status, body := s.patient(t, "an event", post); status {
		case http.StatusCreated, http.StatusOK: // stored before, if an answer was lost
			if utf8.ValidString(name) { // else JSON has replaced it
				names = append(names, "nasty "+name)
			}
		case http.StatusBadRequest:
		default:
			t.Errorf("source %q: status %d: %.200s", name, status, body)
		}
	}
	if len(names) < 20 {
		t.Errorf("of %d names %d are taken", len(nasty()), len(names))
	}
	for _, name := range names {
		poll(t, waitLimit, fmt.Sprintf("the source %q to be counted", name), func() bool {
			status, body := s.get(t, reader, "/funnel?period=24h&source="+url.QueryEscape(name))
			var f funnel
			if status != http.StatusOK || json.Unmarshal(body, &f) != nil || f.Stages[0].Events > 1 {
				t.Fatalf("source %q: status %d: %.300s", name, status, body)
			}
			return f.Stages[0].Events == 1
		})
	}
}

// testSlowHeaders: connections over which a request comes letter by letter are
// closed soon.
func testSlowHeaders(t *testing.T, s *server) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if cut := drip(ctx, s, 100, "GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "); cut != 100 {
		t.Errorf("of 100 connections that drip, the server closes %d", cut)
	}
}

// testSlowBodies: bodies may take longer, and disturb nobody meanwhile.
func testSlowBodies(t *testing.T, s *server) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	drip(ctx, s, 100, "POST "+api+"/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token(t,
		"events:write")+
		"\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
}

// testSlowStrangers: without a token, a body has no time at all.
func testSlowStrangers(t *testing.T, s *server) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // a body with a token may take 60
	defer cancel()
	if cut := drip(ctx, s, 100, "POST "+api+"/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: 100000\r\n\r\n"); cut != 100 {
		t.Errorf("of 100 strangers that drip, the server ends %d", cut)
	}
}

// drip sends the begin of a request over many connections, then a letter a
// second, until the server has ended them all or ctx ends, and returns how
// many the server has ended.
func drip(ctx context.Context, s *server, conns int, begin string) int {
	var all sync.WaitGroup
	var cut atomic.Int64
	for range conns {
		all.Go(func() {
			conn, err := net.Dial("tcp", s.ports.HTTP)
			if err != nil {
				return
			}
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			defer conn.Close()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, conn) // until either side ends it
			}()
			_, _ = io.WriteString(conn, begin)
			for {
				select {
				case <-ended:
					if ctx.Err() == nil {
						cut.Add(1)
					}
					return
				case <-time.After(time.Second):
					_, _ = io.WriteString(conn, "x") // an error shows on the other side, too
				}
			}
		})
	}
	all.Wait()
	return int(cut.Load())
}
