package auth

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"
	"github.com/golang-jwt/jwt/v5"

	"github.com/millrace-io/millrace/internal/httpapi"
)

// goodSecret is how many bytes HS256 wants of a secret, so that a token does
// not give it away to guessing.
const goodSecret = 32

// Config says who is let in.
type Config struct {
	// Secret signs tokens (AUTH_JWT_SECRET). Empty: everything is allowed.
	Secret string
	// AnonymousIngest opens the routes that publish events, and no others, to
	// callers without a token.
	AnonymousIngest bool
}

// Auth checks the tokens of requests.
type Auth struct {
	secret    []byte
	anonymous bool
	parser    *jwt.Parser
}

// New returns the check for a configuration.
func New(cfg Config) *Auth {
	return &Auth{
		secret: []byte(cfg.Secret), anonymous: cfg.AnonymousIngest,
		// The algorithm is pinned: a token must not choose how it is checked.
		// Decoding is strict: a signature has one spelling in base64.
		parser: jwt.NewParser(jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
			jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithStrictDecoding()),
	}
}

// Protected tells whether callers need tokens.
func (a *Auth) Protected() bool { return len(a.secret) > 0 }

// Weak tells whether the secret is short enough to be guessed from a token.
// It is taken all the same, since other services share it.
func (a *Auth) Weak() bool { return a.Protected() && len(a.secret) < goodSecret }

// Caller is who sends a request.
type Caller struct {
	Subject string // the user; empty when anonymous
	// Token names the token by what it was signed for, however it is spelled, and does
	// not give it away; empty without one.
	Token   string
	Expires time.Time // when the token does; zero without one
	scopes  []Scope
	open    bool // there is no secret: everything is allowed
}

// Has tells whether the caller may do what needs the scope.
func (c Caller) Has(scope Scope) bool {
	return c.open || slices.Contains(c.scopes, scope) || slices.Contains(c.scopes, Admin) ||
		scope == Uploads && slices.Contains(c.scopes, Work)
}

// Name tells callers apart, by their users or else by their tokens, in as many letters
// for each. It is empty for callers without a token.
func (c Caller) Name() string {
	if c.Subject == "" {
		return c.Token
	}
	return digest([]byte(c.Subject))
}

type callerKey struct{}

// CallerFrom returns who sent the request that a context belongs to. Without
// one that passed Require or Protect it is nobody, who may do nothing.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// WithCaller returns the context of a request that c sends.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerName names who sent the request that a context belongs to, for limits that each caller
// has: by the subject of the token, by the token, or by the address without one.
func CallerName(ctx context.Context) string {
	switch c := CallerFrom(ctx); {
	case c.Subject != "":
		return "subject " + c.Subject
	case c.Token != "":
		return "token " + c.Token
	}
	return "address " + httpapi.ClientFrom(ctx).String()
}

// Require is the middleware of a plain handler that needs a scope.
func (a *Auth) Require(scope Scope) func(http.Handler) http.Handler {
	return a.require(fromHeader, scope)
}

// RequireSocket is Require for a WebSocket that needs one of several scopes. Its token may
// be in the query or in a subprotocol as well: a browser's page cannot set headers there.
func (a *Auth) RequireSocket(anyOf ...Scope) func(http.Handler) http.Handler {
	return a.require(fromUpgrade, anyOf...)
}

// RequireEvents is Require for a stream of server-sent events that needs one of several
// scopes. Its token may be in the query as well: a browser's EventSource cannot set headers.
func (a *Auth) RequireEvents(anyOf ...Scope) func(http.Handler) http.Handler {
	return a.require(fromHeaderOrQuery, anyOf...)
}

func (a *Auth) require(tokenOf func(*http.Request) string, anyOf ...Scope) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			caller, problem := a.check(r, tokenOf, anyOf...)
			if problem != nil {
				refuse(w, problem)
				return
			}
			next.ServeHTTP(w, r.WithContext(WithCaller(r.Context(), caller)))
		})
	}
}

// Protect adds a required scope to a huma operation: its check, and its
// description.
func (a *Auth) Protect(op huma.Operation, scope Scope) huma.Operation {
	op.Security = Security(scope)
	op.Middlewares = append(huma.Middlewares{func(ctx huma.Context, next func(huma.Context)) {
		r, w := humachi.Unwrap(ctx)
		caller, problem := a.check(r, fromHeader, scope)
		if problem != nil {
			refuse(w, problem)
			return
		}
		next(huma.WithValue(ctx, callerKey{}, caller))
	}}, op.Middlewares...)
	return op
}

// Security describes in the OpenAPI description that one of several scopes is required.
func Security(anyOf ...Scope) []map[string][]string {
	all := make([]map[string][]string, len(anyOf))
	for i, scope := range anyOf {
		all[i] = map[string][]string{httpapi.SecurityScheme: {string(scope)}}
	}
	return all
}

// check finds out who calls and whether they have one of the scopes.
func (a *Auth) check(
	r *http.Request, tokenOf func(*http.Request) string, anyOf ...Scope,
) (Caller, *httpapi.Problem) {
	if !a.Protected() {
		return Caller{open: true}, nil
	}
	token := tokenOf(r)
	if token == "" {
		if a.anonymous && slices.Contains(anyOf, EventsWrite) {
			return Caller{scopes: []Scope{EventsWrite}}, nil
		}
		return Caller{}, unauthorized("a bearer token is required", `Bearer realm="millrace"`)
	}
	caller, err := a.parse(token)
	if err != nil {
		return Caller{}, unauthorized("the token is not valid: "+reason(err),
			`Bearer realm="millrace", error="invalid_token"`)
	}
	if !slices.ContainsFunc(anyOf, caller.Has) {
		return Caller{}, lacking(anyOf)
	}
	return caller, nil
}

// lacking refuses a token that has none of the scopes. The challenge names each in one of its own: in one
// challenge, all scopes are required.
func lacking(anyOf []Scope) *httpapi.Problem {
	names := make([]string, len(anyOf))
	challenges := make([]string, len(anyOf))
	for i, scope := range anyOf {
		names[i] = string(scope)
		challenges[i] = `Bearer realm="millrace", error="insufficient_scope", scope="` + string(scope) + `"`
	}
	return httpapi.NewProblem(http.StatusForbidden, "the token lacks the scope "+strings.Join(names, " or ")).
		WithHeader("WWW-Authenticate", strings.Join(challenges, ", "))
}

// restTime is how long the body of a request that is refused may still take:
// without leave, nobody holds a connection by sending slowly.
const restTime = time.Second

func refuse(w http.ResponseWriter, p *httpapi.Problem) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restTime)) // a test's recorder has none
	httpapi.WriteProblem(w, p)
}

func unauthorized(detail, challenge string) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusUnauthorized, detail).WithHeader("WWW-Authenticate", challenge)
}

// reason says what is wrong with a token without echoing any of it.
func reason(err error) string {
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return "it has expired"
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return "it has no exp"
	case errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, jwt.ErrTokenUsedBeforeIssued):
		return "it is not valid yet"
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return "its signature or algorithm is wrong"
	}
	return "it is malformed"
}

// Subprotocol is what a WebSocket that was offered a token answers with.
const Subprotocol = "bearer"

func fromHeader(r *http.Request) string {
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	return ""
}

func fromHeaderOrQuery(r *http.Request) string {
	if token := fromHeader(r); token != "" {
		return token
	}
	return r.URL.Query().Get("access_token")
}

// fromUpgrade looks into the query of an upgrade only: addresses of other
// requests end in logs, histories and referrers.
func fromUpgrade(r *http.Request) string {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return fromHeader(r)
	}
	if token := fromHeaderOrQuery(r); token != "" {
		return token
	}
	return fromSubprotocol(r.Header.Values("Sec-WebSocket-Protocol"))
}

func fromSubprotocol(values []string) string {
	names := strings.Split(strings.Join(values, ","), ",")
	for i, name := range names[:len(names)-1] {
		if strings.TrimSpace(name) == Subprotocol {
			return strings.TrimSpace(names[i+1])
		}
	}
	return ""
}
