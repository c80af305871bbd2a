package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace-io/millrace/internal/netguard"
	"github.com/millrace-io/millrace/internal/userqueue"
)

const (
	dialTimeout = 10 * time.Second
	maxHeaders  = 64 << 10
	maxPerHost  = 64 // connections
)

// Guard tells which addresses may be called.
type Guard struct{ netguard.Guard }

// NewGuard returns the guard for networks that are allowed besides public ones.
func NewGuard(allowed []netip.Prefix) Guard { return Guard{netguard.New(allowed)} }

// Sender sends requests. It is safe for concurrent use.
type Sender struct {
	guard  Guard
	client *http.Client
}

// NewSender returns a sender to addresses that a guard lets pass. The resolver may be nil.
func NewSender(guard Guard, resolver *net.Resolver) *Sender {
	dialer := guard.Dialer(dialTimeout, resolver)
	return &Sender{guard, &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: maxHeaders,
			MaxConnsPerHost: maxPerHost, MaxIdleConnsPerHost: maxPerHost, IdleConnTimeout: 30 * time.Second,
			DisableCompression: true, ForceAttemptHTTP2: true, Proxy: nil, // a proxy would dial in its own place
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (s *Sender) Close() { s.client.CloseIdleConnections() }

// Send sends an item, and returns what became of it. The context bounds the time.
func (s *Sender) Send(ctx context.Context, w Webhook, c Call) Answer {
	body, err := json.Marshal(c)
	if err != nil {
		return Answer{Err: fmt.Errorf("write the request: %w", err)}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return Answer{Err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "millrace-webhook")
	if err := sign(r.Header, w.Secret, c.MessageID(), time.Now(), body); err != nil {
		return Answer{Err: err}
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return Answer{Err: err}
	}
	defer answer.Body.Close()
	// One byte more than a result may have says that it has too many.
	body, err = io.ReadAll(io.LimitReader(answer.Body, userqueue.MaxResult+1))
	if err != nil {
		return Answer{Err: fmt.Errorf("read the answer: %w", err)}
	}
	now, err := http.ParseTime(answer.Header.Get("Date")) // by the clock of who says until when
	if err != nil {
		now = time.Now()
	}
	return Answer{Status: answer.StatusCode, Body: body, RetryAfter: retryAfter(answer.Header.Get("Retry-After"), now)}
}

// sign adds the headers that prove who sends a body, and when.
func sign(h http.Header, secret []byte, id string, at time.Time, body []byte) error {
	hook, err := standardwebhooks.NewWebhookRaw(secret)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	signature, err := hook.Sign(id, at, body)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	h.Set(standardwebhooks.HeaderWebhookID, id)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return nil
}

// cause is an error without the address that was called, which may have what is secret.
func cause(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	var dial *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "its host name does not exist"
	case errors.As(err, &dns):
		return "its host name cannot be resolved at present"
	case errors.As(err, &dial) && dial.Op == "dial":
		return "no connection could be made"
	}
	return err.Error()
}
