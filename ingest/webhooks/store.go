package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Webhook is an address that the items of a queue are sent to.
type Webhook struct {
	Queue       string
	URL         string
	Secret      []byte
	Timeout     time.Duration // of a request
	Concurrency int           // requests of one process at a time
	ChangedAt   time.Time
}

// Bounds of a webhook, and its defaults.
const (
	MaxURL         = 2048
	DefaultTimeout = 30 * time.Second
	MaxConcurrency = 64

	secretSize    = 32
	secretLeast   = 24
	secretMost    = 64
	secretMarking = "whsec_"
)

// ErrNone is the error of a queue without a webhook.
var ErrNone = errors.New("the queue has no webhook")

// Host is the host that the webhook leads to, with its port.
func (w Webhook) Host() string {
	u, err := url.Parse(w.URL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// NewSecret makes a secret.
func NewSecret() []byte {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// SecretText is a secret as receivers get it.
func SecretText(secret []byte) string {
	return secretMarking + base64.StdEncoding.EncodeToString(secret)
}

// ParseSecret reads a secret, and returns the rule that it breaks, if any.
func ParseSecret(text string) ([]byte, string) {
	encoded, marked := strings.CutPrefix(text, secretMarking)
	secret, err := base64.StdEncoding.DecodeString(encoded)
	if !marked || err != nil || len(secret) < secretLeast || len(secret) > secretMost {
		return nil, fmt.Sprintf("must be %s and %d to %d bytes in base64, or left out: then one is made", secretMarking,
			secretLeast, secretMost)
	}
	return secret, ""
}

// CheckURL returns the rule that an address breaks, or nil. A name is checked when it is called: it may lead elsewhere
// by then.
func (g Guard) CheckURL(text string) *item.Invalid {
	wrong := func(code, rule string) *item.Invalid { return &item.Invalid{Field: "url", Code: code, Rule: rule} }
	u, err := url.Parse(text)
	switch {
	case len(text) > MaxURL || err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return wrong("url", fmt.Sprintf("must be an absolute https or http URL with a host, of up to %d bytes", MaxURL))
	case u.User != nil:
		return wrong("user", "must have no user and no password: the signature says who sends a request")
	case u.Fragment != "":
		return wrong("fragment", "must have no fragment")
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if err == nil && g.SafeAddr(ip) != nil || strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "localhost") &&
		g.SafeAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1})) != nil {
		return wrong("private", "must lead to a public network, or to one that MILLRACE_WEBHOOK_ALLOW names")
	}
	return nil
}

// Store keeps webhooks. It is safe for concurrent use.
type Store struct{ pool *pgxpool.Pool }

// NewStore returns a store on a pool, which is the caller's.
func NewStore(pool *pgxpool.Pool) (*Store, error) {
	if pool == nil {
		return nil, errors.New("webhooks: a connection pool is needed")
	}
	return &Store{pool}, nil
}

const webhookColumns = "SELECT s.name, w.url, w.secret, w.timeout_s, w.concurrency, w.changed_at FROM millrace.webhook AS w JOIN millrace.stage AS s USING (stage)"

func scanWebhook(r pgx.CollectableRow) (w Webhook, err error) {
	var timeout float32
	err = r.Scan(&w.Queue, &w.URL, &w.Secret, &timeout, &w.Concurrency, &w.ChangedAt)
	w.Timeout = item.Seconds(float64(timeout))
	return w, err
}

// Set gives a queue a webhook in place of the one before. Without a secret it keeps that of the one before, or makes
// one; fresh is a secret that was made. It returns queue.ErrNoQueue where there is no queue of that number.
func (s *Store) Set(ctx context.Context, q queue.ID, w Webhook) (set Webhook, fresh bool, err error) {
	made := NewSecret()
	rows, _ := s.pool.Query(ctx, `WITH w AS (
			INSERT INTO millrace.webhook AS w (stage, url, secret, timeout_s, concurrency)
			SELECT stage, $2, coalesce($3::bytea, $4::bytea), $5, $6 FROM millrace.stage WHERE stage = $1
			ON CONFLICT (stage) DO UPDATE SET url = excluded.url, secret = coalesce($3::bytea, w.secret),
				timeout_s = excluded.timeout_s, concurrency = excluded.concurrency, changed_at = now()
			RETURNING *
		) SELECT s.name, w.url, w.secret, w.timeout_s, w.concurrency, w.changed_at FROM w JOIN millrace.stage AS s USING (stage)`,
		q, w.URL, w.Secret, made, w.Timeout.Seconds(), w.Concurrency)
	set, err = pgx.CollectExactlyOneRow(rows, scanWebhook)
	if errors.Is(err, pgx.ErrNoRows) {
		return set, false, queue.ErrNoQueue
	}
	if err != nil {
		return set, false, fmt.Errorf("set the webhook of a queue: %w", err)
	}
	return set, string(set.Secret) == string(made), nil
}

// Get returns the webhook of a queue, or ErrNone.
func (s *Store) Get(ctx context.Context, q queue.ID) (w Webhook, err error) {
	rows, _ := s.pool.Query(ctx, webhookColumns+" WHERE w.stage = $1", q)
	w, err = pgx.CollectExactlyOneRow(rows, scanWebhook)
	return w, dbpool.Found(err, ErrNone, "read the webhook of a queue")
}

// Remove has the items of a queue sent nowhere, or returns ErrNone.
func (s *Store) Remove(ctx context.Context, q queue.ID) error {
	tag, err := s.pool.Exec(ctx, "DELETE FROM millrace.webhook WHERE stage = $1", q)
	if err != nil {
		return fmt.Errorf("remove the webhook of a queue: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrNone
	}
	return nil
}

// All returns all webhooks.
func (s *Store) All(ctx context.Context) ([]Webhook, error) {
	rows, _ := s.pool.Query(ctx, webhookColumns+" ORDER BY s.name")
	return dbpool.Collect(rows, scanWebhook, "read webhooks")
}

// Defer notes that a host has asked not to be sent anything for a while.
func (s *Store) Defer(ctx context.Context, host string, wait time.Duration) error {
	_, err := s.pool.Exec(ctx, `INSERT INTO millrace.webhook_host AS h (host, until_at, wait_s)
		VALUES ($1, now() + make_interval(secs => $2), $2)
		ON CONFLICT (host) DO UPDATE SET until_at = excluded.until_at, wait_s = excluded.wait_s
		WHERE h.until_at < excluded.until_at OR h.until_at > now() + make_interval(secs => h.wait_s + $3)`,
		host, wait.Seconds(), setBackBy.Seconds())
	if err != nil {
		return fmt.Errorf("note that %s is to be sent nothing for a while: %w", host, err)
	}
	return nil
}

// setBackBy is by how much the clock of Postgres may be set back without notice.
const setBackBy = 10 * time.Second

// Deferred returns the hosts that are to be sent nothing, and for how long, and forgets others. Where the clock of Postgres was
// set back the waits begin anew: none is longer than its host has asked for.
func (s *Store) Deferred(ctx context.Context) (map[string]time.Duration, error) {
	rows, err := s.pool.Query(ctx, `WITH over AS (DELETE FROM millrace.webhook_host WHERE until_at <= now()),
		anew AS (UPDATE millrace.webhook_host SET until_at = now() + make_interval(secs => wait_s)
			WHERE until_at > now() + make_interval(secs => wait_s + $1))
		SELECT host, least(extract(epoch FROM until_at - now()), wait_s)::float8 FROM millrace.webhook_host WHERE until_at > now()`,
		setBackBy.Seconds())
	all := map[string]time.Duration{}
	var host string
	var wait float64
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&host, &wait}, func() error {
			all[host] = item.Seconds(wait)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read hosts that are to be sent nothing: %w", err)
	}
	return all, nil
}
