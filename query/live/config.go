package live

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/query/window"
)

// Config shapes a Hub. The zero value of a field stands for its default.
type Config struct {
	// Origins are the origins besides the server's own from which browsers
	// may connect, such as https://dashboard.example.com.
	Origins []string

	Connections   int // at one time; default 10,000
	Subscriptions int // of a connection; default 32
	Feeds         int // distinct views that are watched; default DefaultFeeds

	// Interval is the shortest time between two snapshots of a subscription;
	// default 100 ms.
	Interval time.Duration
	// Refresh is how often a view is looked at that no event has changed: its
	// window moves with the clock. It is also the shortest time between two
	// snapshots that are slow, but for the first change; default 5 s.
	Refresh time.Duration
	// WriteTimeout closes a connection whose reader is slower; default 10 s.
	WriteTimeout time.Duration
	// PingInterval is how often a connection is pinged. One from which nothing
	// has come for two of them is closed; default 30 s.
	PingInterval time.Duration
}

// DefaultFeeds is the default of Config.Feeds.
const DefaultFeeds = 256

// maxMessage bounds what a client sends, in bytes.
const maxMessage = 4 << 10

func (c Config) withDefaults() Config {
	for _, f := range []struct {
		field  *int
		preset int
	}{{&c.Connections, 10_000}, {&c.Subscriptions, 32}, {&c.Feeds, DefaultFeeds}} {
		if *f.field == 0 {
			*f.field = f.preset
		}
	}
	for _, f := range []struct {
		field  *time.Duration
		preset time.Duration
	}{
		{&c.Interval, 100 * time.Millisecond},
		{&c.Refresh, 5 * time.Second},
		{&c.WriteTimeout, 10 * time.Second},
		{&c.PingInterval, 30 * time.Second},
	} {
		if *f.field == 0 {
			*f.field = f.preset
		}
	}
	return c
}

// Query is what a subscription is to.
type Query struct {
	Source           string
	Spec             window.Spec
	SkipReclassified bool // without reclassifications
}

// Snapshot is the state of a view.
type Snapshot struct {
	Body json.RawMessage
	// Numbers are equal for snapshots that show the same: those that differ
	// only in when they were taken are not worth sending.
	Numbers string
	// Slow says that memory does not hold what was counted.
	Slow bool
}

// View is what can be subscribed to.
type View interface {
	// Check says what is wrong with a source, nil when nothing is.
	Check(source string) *httpapi.Problem
	// Snapshot computes the present state.
	Snapshot(ctx context.Context, q Query) (Snapshot, error)
	// Changed returns a channel that is closed at the next change.
	Changed() <-chan struct{}
	// Problem turns an error of Snapshot into what the client is told.
	Problem(err error) *httpapi.Problem
}

// Request is what a client sends.
type Request struct {
	Op               string `json:"op" enum:"subscribe,unsubscribe" doc:"What to do"`
	ID               string `json:"id" doc:"The client's name for the subscription, up to 64 bytes" example:"a"`
	View             string `json:"view,omitempty" enum:"funnel" doc:"Which view; default funnel"`
	Period           string `json:"period,omitempty" enum:"today,24h,7d,30d" doc:"Default today"`
	Source           string `json:"source,omitempty" doc:"Only this source; empty: all"`
	TZ               string `json:"tz,omitempty" doc:"The time zone in which days begin; default UTC" example:"Europe/Berlin"`
	SkipReclassified bool   `json:"exclude_reclassifications,omitempty" doc:"Leave out events whose metadata says is_reclassification"`
}

func problem(detail string, errs ...httpapi.FieldError) *httpapi.Problem {
	return httpapi.NewProblem(http.StatusBadRequest, detail, errs...)
}
