package ingesthttp

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/internal/httpapi"
)

// Limits bound how fast each caller may bring events: one that has a token by
// the token, any other by its address.
type Limits struct {
	// Rate is in events a second; default 1,000. Negative: unlimited.
	Rate float64
	// Burst is how many events a caller that was silent may bring at once;
	// default 10,000, the largest batch.
	Burst int
	// Callers is how many callers are remembered. When there are more, the
	// one that was silent longest starts afresh; default 10,000, which take
	// about 3 MB.
	Callers int
	// Proxies are trusted to name the caller's address in X-Forwarded-For.
	Proxies httpapi.Proxies
}

func (l Limits) withDefaults() Limits {
	l.Rate = cmp.Or(l.Rate, 1000)
	l.Burst = cmp.Or(l.Burst, MaxEvents)
	l.Callers = cmp.Or(l.Callers, 10_000)
	return l
}

// limiter keeps a token bucket for each caller.
type limiter struct {
	limits  Limits
	now     func() time.Time
	mu      sync.Mutex
	callers *simplelru.LRU[string, *rate.Limiter]
}

func newLimiter(l Limits) (*limiter, error) {
	l = l.withDefaults()
	callers, err := simplelru.NewLRU[string, *rate.Limiter](l.Callers, nil)
	if err != nil || l.Burst < 0 {
		return nil, fmt.Errorf("HTTP ingest: %d callers and a burst of %d events are no limits", l.Callers, l.Burst)
	}
	return &limiter{limits: l, now: time.Now, callers: callers}, nil
}

// take charges the caller of a request for its events, all or none.
func (l *limiter) take(r *http.Request, events int) *httpapi.Problem {
	if l.limits.Rate < 0 {
		return nil
	}
	if events > l.limits.Burst {
		rule := fmt.Sprintf("must hold at most %d events, as many as a caller may send at once", l.limits.Burst)
		return httpapi.NewProblem(http.StatusRequestEntityTooLarge, "a batch "+rule,
			httpapi.FieldError{Field: "events", Code: "batch_size", Rule: rule})
	}
	now := l.now()
	bucket := l.bucket(l.caller(r))
	if bucket.AllowN(now, events) {
		return nil
	}
	missing := float64(events) - bucket.TokensAt(now)
	wait := max(1, math.Ceil(missing/l.limits.Rate))
	return httpapi.NewProblem(http.StatusTooManyRequests,
		"too many events in a short time; nothing of this request was taken, send it again",
		httpapi.FieldError{Code: "rate", Rule: fmt.Sprintf("must be at most %g events a second, and %d at once",
			l.limits.Rate, l.limits.Burst)},
	).WithHeader("Retry-After", strconv.FormatFloat(wait, 'f', 0, 64))
}

func (l *limiter) bucket(caller string) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.callers.Get(caller)
	if !ok {
		b = rate.NewLimiter(rate.Limit(l.limits.Rate), l.limits.Burst)
		l.callers.Add(caller, b)
	}
	return b
}

// caller names whom a request is charged to.
func (l *limiter) caller(r *http.Request) string {
	if token := auth.CallerFrom(r.Context()).Token; token != "" {
		return token
	}
	return l.limits.Proxies.Client(r).String()
}
