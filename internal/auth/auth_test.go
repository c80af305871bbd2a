package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/go-chi/chi/v5"
	"github.com/golang-jwt/jwt/v5"
)

const secret = "0123456789abcdef0123456789abcdef"

func mint(t *testing.T, secret string, ttl time.Duration, scopes ...Scope) string {
	t.Helper()
	token, err := Mint(secret, "ann", scopes, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func sign(t *testing.T, method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokens(t *testing.T) {
	later := time.Now().Add(time.Hour).Unix()
	none := sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType,
		jwt.MapClaims{"exp": later, "scope": "admin"})
	cut := mint(t, secret, time.Hour, Read)
	for _, c := range []struct {
		name, header string
		scope        Scope
		status       int
		challenge    string
	}{
		{"right scope", "Bearer " + mint(t, secret, time.Hour, Read), Read, 200, ""},
		{"scheme in lower case", "bearer " + mint(t, secret, time.Hour, Read), Read, 200, ""},
		{"admin", "Bearer " + mint(t, secret, time.Hour, Admin), Work, 200, ""},
		{"work for uploads", "Bearer " + mint(t, secret, time.Hour, Work), Uploads, 200, ""},
		{"uploads", "Bearer " + mint(t, secret, time.Hour, Uploads), Uploads, 200, ""},
		{"several scopes", "Bearer " + mint(t, secret, time.Hour, Read, Work), Work, 200, ""},
		{"list of scopes", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret),
			jwt.MapClaims{"exp": later, "scopes": []string{"read", "work"}}), Work, 200, ""},
		{"none", "", Read, 401, `Bearer realm="millrace"`},
		{"other scheme", "Basic YTpi", Read, 401, `Bearer realm="millrace"`},
		{"other scope", "Bearer " + mint(t, secret, time.Hour, Read), EventsWrite, 403, "insufficient_scope"},
		{
			"write is not backfill", "Bearer " + mint(t, secret, time.Hour, EventsWrite), EventsBackfill, 403,
			"insufficient_scope",
		},
		{"no scope", "Bearer " + mint(t, secret, time.Hour), Read, 403, "insufficient_scope"},
		{"expired", "Bearer " + mint(t, secret, -time.Minute, Read), Read, 401, "invalid_token"},
		{
			"without exp", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret), jwt.MapClaims{"scope": "read"}),
			Read, 401, "invalid_token",
		},
		{"not yet", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret),
			jwt.MapClaims{"scope": "read", "exp": later, "nbf": later}), Read, 401, "invalid_token"},
		{"other secret", "Bearer " + mint(t, strings.Repeat("x", 32), time.Hour, Admin), Read, 401, "invalid_token"},
		{"no algorithm", "Bearer " + none, Read, 401, "invalid_token"},
		{"other algorithm", "Bearer " + sign(t, jwt.SigningMethodHS512, []byte(secret),
			jwt.MapClaims{"exp": later, "scope": "admin"}), Read, 401, "invalid_token"},
		{"cut", "Bearer " + cut[:len(cut)-2], Read, 401, "invalid_token"},
		{"scope of another type", "Bearer " + sign(t, jwt.SigningMethodHS256, []byte(secret),
			jwt.MapClaims{"exp": later, "scope": 7}), Read, 401, "invalid_token"},
		{"garbage", "Bearer a.b.c", Read, 401, "invalid_token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			got := ask(t, Config{Secret: secret}, c.scope, r)
			if got.Code != c.status || !strings.Contains(got.Header().Get("WWW-Authenticate"), c.challenge) {
				t.Fatalf("%d %q %s", got.Code, got.Header().Get("WWW-Authenticate"), got.Body)
			}
			if c.status != 200 && got.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("content type %q", got.Header().Get("Content-Type"))
			}
		})
	}
}

// spellings are texts that lenient decoding takes for the same token.
func spellings(token string) (all []string) {
	body, signature := token[:strings.LastIndex(token, ".")+1], token[strings.LastIndex(token, ".")+1:]
	same, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return nil
	}
	for _, last := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" {
		other := signature[:len(signature)-1] + string(last)
		if is, err := base64.RawURLEncoding.DecodeString(other); err == nil && bytes.Equal(is, same) && other != signature {
			all = append(all, body+other)
		}
	}
	return append(all, token+"\n", body+"\r"+signature)
}

// TestSpellings: a token has one spelling, and is known by what it was signed for.
func TestSpellings(t *testing.T) {
	token := mint(t, secret, time.Hour, Read)
	all := spellings(token)
	if len(all) != 5 {
		t.Fatalf("%d other spellings, want 5", len(all))
	}
	a := New(Config{Secret: secret})
	right, err := a.parse(token)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range all {
		if _, err := a.parse(other); err == nil {
			t.Errorf("%q is taken for %q", other, token)
		}
		parsed, _, err := jwt.NewParser().ParseUnverified(other, &claims{})
		if err != nil {
			t.Fatal(err)
		}
		if parsed.Signature, err = jwt.NewParser().DecodeSegment(other[strings.LastIndex(other, ".")+1:]); err != nil {
			t.Fatal(err)
		}
		if name(parsed) != right.Token {
			t.Errorf("%q has another name", other)
		}
	}
	if next, err := a.parse(mint(t, secret, 2*time.Hour, Read)); err != nil || next.Token == right.Token ||
		strings.Contains(token, right.Token) {
		t.Errorf("%q and %q, %v", next.Token, right.Token, err)
	}
}

// ask sends a request through both forms of the check and wants one answer.
func ask(t *testing.T, cfg Config, scope Scope, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	a := New(cfg)
	plain := httptest.NewRecorder()
	a.Require(scope)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !CallerFrom(r.Context()).Has(scope) {
			t.Error("the handler is not told who calls")
		}
	})).ServeHTTP(plain, r)
	router := chi.NewRouter()
	api := humachi.New(router, huma.DefaultConfig("", ""))
	huma.Register(api, a.Protect(huma.Operation{Method: "GET", Path: "/", DefaultStatus: 200}, scope),
		func(ctx context.Context, _ *struct{}) (*struct{}, error) {
			if !CallerFrom(ctx).Has(scope) {
				t.Error("the operation is not told who calls")
			}
			return nil, nil
		})
	huma := httptest.NewRecorder()
	router.ServeHTTP(huma, r)
	if huma.Code != plain.Code || huma.Body.String() != plain.Body.String() {
		t.Errorf("as an operation: %d %s; as a handler: %d %s", huma.Code, huma.Body, plain.Code, plain.Body)
	}
	return plain
}

func TestWebSocketTokens(t *testing.T) {
	token := mint(t, secret, time.Hour, Read)
	for _, c := range []struct {
		name, target, upgrade, protocol string
		status                          int
	}{
		{"query of a WebSocket", "/?access_token=" + token, "websocket", "", 200},
		{"query of a request", "/?access_token=" + token, "", "", 401},
		{"subprotocol", "/", "WebSocket", "bearer, " + token, 200},
		{"subprotocol after another", "/", "websocket", "millrace, bearer," + token, 200},
		{"subprotocol of a request", "/", "", "bearer, " + token, 401},
		{"subprotocol without token", "/", "websocket", "bearer", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", c.target, nil)
			r.Header.Set("Upgrade", c.upgrade)
			r.Header.Set("Sec-WebSocket-Protocol", c.protocol)
			if got := ask(t, Config{Secret: secret}, Read, r); got.Code != http.StatusUnauthorized {
				t.Errorf("where no WebSocket is: %d %s", got.Code, got.Body)
			}
			got := httptest.NewRecorder()
			New(Config{Secret: secret}).RequireSocket(Read)(http.HandlerFunc(func(http.ResponseWriter,
				*http.Request) {
			})).ServeHTTP(got, r)
			if got.Code != c.status {
				t.Errorf("%d %s", got.Code, got.Body)
			}
		})
	}
}

func TestOpenServers(t *testing.T) {
	request := func() *http.Request { return httptest.NewRequest("GET", "/", nil) }
	if got := ask(t, Config{}, EventsBackfill, request()); got.Code != 200 {
		t.Errorf("without a secret: %d", got.Code)
	}
	anonymous := Config{Secret: secret, AnonymousIngest: true}
	for scope, want := range map[Scope]int{EventsWrite: 200, EventsBackfill: 401, Read: 401, Work: 401, Admin: 401} {
		if got := ask(t, anonymous, scope, request()); got.Code != want {
			t.Errorf("anonymous ingest, %s: %d, want %d", scope, got.Code, want)
		}
	}
	bad := request()
	bad.Header.Set("Authorization", "Bearer "+base64.StdEncoding.EncodeToString([]byte("x")))
	if got := ask(t, anonymous, EventsWrite, bad); got.Code != 401 {
		t.Errorf("anonymous ingest with a wrong token: %d, want 401", got.Code)
	}
	if CallerFrom(context.Background()).Has(Read) {
		t.Error("nobody may read")
	}
}

func TestRefusedConfiguration(t *testing.T) {
	if !New(Config{Secret: "short"}).Weak() || New(Config{Secret: secret}).Weak() || New(Config{}).Weak() {
		t.Error("a weak secret is one of fewer than 32 bytes")
	}
	if _, err := Mint(secret, "ann", []Scope{"everything"}, time.Hour); err == nil {
		t.Error("an unknown scope is minted")
	}
	if _, err := Mint("", "ann", nil, time.Hour); err == nil {
		t.Error("a token is minted without a secret")
	}
}
