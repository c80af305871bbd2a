package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Scope is a permission that a token carries.
type Scope string

// The scopes. Admin implies all others.
const (
	EventsWrite    Scope = "events:write"
	EventsBackfill Scope = "events:backfill" // events of any age
	Read           Scope = "read"
	Work           Scope = "work"
	Uploads        Scope = "uploads" // own uploads; Work implies it
	Admin          Scope = "admin"
)

// Scopes lists all scopes.
func Scopes() []Scope { return []Scope{EventsWrite, EventsBackfill, Read, Work, Uploads, Admin} }

// claims are those of a token. Scopes come as the text that OAuth uses or as
// a list.
type claims struct {
	jwt.RegisteredClaims
	Scope  scopeList `json:"scope,omitempty"`
	Scopes scopeList `json:"scopes,omitempty"`
}

type scopeList []Scope

// UnmarshalJSON reads "a b" and ["a","b"].
func (l *scopeList) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		for name := range strings.FieldsSeq(text) {
			*l = append(*l, Scope(name))
		}
		return nil
	}
	var list []Scope
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New("the scopes must be a text or a list of texts")
	}
	*l = list
	return nil
}

// MarshalJSON writes "a b".
func (l scopeList) MarshalJSON() ([]byte, error) {
	names := make([]string, len(l))
	for i, s := range l {
		names[i] = string(s)
	}
	return json.Marshal(strings.Join(names, " "))
}

// Mint makes a token for sub with the scopes, valid from now for ttl.
func Mint(secret, sub string, scopes []Scope, ttl time.Duration) (string, error) {
	if secret == "" {
		return "", errors.New("mint a token: AUTH_JWT_SECRET is not set")
	}
	for _, s := range scopes {
		if !slices.Contains(Scopes(), s) {
			return "", fmt.Errorf("mint a token: %q is not a scope", s)
		}
	}
	now := time.Now()
	c := claims{Scope: scopes, RegisteredClaims: jwt.RegisteredClaims{
		Subject: sub, IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString([]byte(secret))
	if err != nil {
		return "", fmt.Errorf("mint a token: %w", err)
	}
	return token, nil
}

// parse checks a token's signature, algorithm and times.
func (a *Auth) parse(token string) (Caller, error) {
	if strings.ContainsAny(token, "\r\n") { // which decoding passes over
		return Caller{}, jwt.ErrTokenMalformed
	}
	var c claims
	parsed, err := a.parser.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return a.secret, nil })
	if err != nil {
		return Caller{}, err
	}
	return Caller{
		Subject: c.Subject, Token: name(parsed), Expires: c.ExpiresAt.Time, scopes: append(c.Scope, c.Scopes...),
	}, nil
}

// name is that of a token: a digest of its signature, which is the same for whatever
// spells the same token.
func name(token *jwt.Token) string { return digest(token.Signature) }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
