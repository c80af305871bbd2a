package emit

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/client/publish"
	"github.com/millrace-io/millrace/schemas/event"
)

// Options shape a client. The zero value of a field stands for its default.
type Options struct {
	// URL is where Millrace is: nats://host:4222, several separated by
	// commas, or http://host:8075, with a path prefix where there is one. An
	// address without a scheme is one of NATS. Empty: the client does nothing.
	URL string
	// Service is the service_name of events that do not name one; required
	// with a URL.
	Service string
	// Timeout bounds how long a call keeps its caller, and how long Millrace
	// may take to answer an attempt to deliver; default 2 s.
	Timeout time.Duration
	// Buffer is how many events wait in memory at most; default 10,000. With
	// a spool they wait there.
	Buffer int
	// BufferBytes bounds their size; default 32 MiB.
	BufferBytes int
	// Spool is a folder in which events wait until they are delivered, over
	// outages and restarts; one for each process. Default none: they wait in
	// memory.
	Spool string
	// SpoolBytes bounds the size of the events that wait there; default 1 GiB.
	SpoolBytes int64
	// SpoolSync is how often the spool is synced to disk, which only matters
	// when the machine ends and not just the process; default 1 s, negative:
	// before each call returns.
	SpoolSync time.Duration
	// Breaker says when to leave Millrace alone.
	Breaker Breaker
	// Token goes with requests over HTTP. It needs the scope events:write, and
	// events:backfill for what has waited for almost 24 hours: without that,
	// such events wait on, and all that come after them.
	Token string
	// HTTPClient makes them; default one of the client's own.
	HTTPClient *http.Client
	// NATS are options of the connection beside the client's own, such as
	// credentials.
	NATS []nats.Option
	// Registry gets the client's metrics; default none.
	Registry prometheus.Registerer
	// Log gets warnings, and each event that is lost; default slog.Default().
	// For silence, give one with slog.DiscardHandler.
	Log *slog.Logger

	retry time.Duration // the first wait between attempts; default 100 ms
	wrong error         // in the environment
}

// Breaker shapes the circuit breaker. The zero value of a field stands for its
// default.
type Breaker struct {
	Failures  uint32        // in a row that open it; default 5
	OpenFor   time.Duration // until it tries again, half-open; default 30 s
	Successes uint32        // in a row that close it then; default 2
}

// Environment variables that FromEnv reads.
const (
	EnvNATS    = "MILLRACE_NATS_URL"
	EnvService = "PIPELINE_SERVICE_URL"
	EnvToken   = "PIPELINE_SERVICE_TOKEN" // with a spool, one with the scope events:backfill too
	EnvSpool   = "PIPELINE_SPOOL"
	EnvOpenFor = "PIPELINE_CIRCUIT_OPEN_FOR"
)

// FromEnv returns options from the environment: the address from
// MILLRACE_NATS_URL, or else from PIPELINE_SERVICE_URL; PIPELINE_SERVICE_TOKEN
// and PIPELINE_SPOOL; PIPELINE_CIRCUIT_OPEN_FOR, such as 30s, for the breaker's
// OpenFor; and what LoginFromEnv reads. The client does nothing with neither
// address, and when PIPELINE_SERVICE_URL is set and empty, whatever
// MILLRACE_NATS_URL says: that switches one service off.
func FromEnv(service string) Options {
	o := Options{URL: addressFromEnv(), Service: service, Token: os.Getenv(EnvToken), Spool: os.Getenv(EnvSpool)}
	if text := os.Getenv(EnvOpenFor); text != "" {
		var err error
		if o.Breaker.OpenFor, err = time.ParseDuration(text); err != nil || o.Breaker.OpenFor <= 0 {
			o.wrong = fmt.Errorf("client: %s=%q is no duration such as 30s", EnvOpenFor, text)
		}
	}
	login, err := publish.LoginFromEnv().Options()
	if err != nil {
		o.wrong = errors.Join(o.wrong, fmt.Errorf("client: %w", err))
	}
	o.NATS = login
	return o
}

func addressFromEnv() string {
	service, set := os.LookupEnv(EnvService)
	if set && service == "" {
		return ""
	}
	return cmp.Or(os.Getenv(EnvNATS), service)
}

func (o Options) withDefaults() Options {
	set(&o.Timeout, 2*time.Second)
	set(&o.Buffer, 10_000)
	set(&o.BufferBytes, 32<<20)
	set(&o.SpoolBytes, 1<<30)
	set(&o.SpoolSync, time.Second)
	set(&o.retry, 100*time.Millisecond)
	set(&o.Breaker.Failures, 5)
	set(&o.Breaker.OpenFor, 30*time.Second)
	set(&o.Breaker.Successes, 2)
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// fullness is how much of the buffer or the spool is taken, from 0 to 1.
func (o Options) fullness(events int, bytes int64) float64 {
	if o.Spool != "" {
		return float64(bytes) / float64(o.SpoolBytes)
	}
	return max(float64(events)/float64(o.Buffer), float64(bytes)/float64(o.BufferBytes))
}

func set[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}

func (o Options) check() error {
	if o.wrong != nil {
		return o.wrong
	}
	if o.Service == "" || len(o.Service) > event.MaxName {
		return fmt.Errorf("client: Service needs a name of at most %d bytes", event.MaxName)
	}
	if o.Timeout < 0 || o.Buffer < 0 || o.BufferBytes < 0 || o.SpoolBytes < 0 || o.Breaker.OpenFor < 0 {
		return errors.New("client: Timeout, Buffer, BufferBytes, SpoolBytes and OpenFor must not be negative")
	}
	return nil
}

// target is where events go: the address without what is secret in it, for
// logs and metrics, and whether it speaks HTTP.
func target(address string) (shown string, overHTTP bool, err error) {
	var all []string
	for one := range strings.SplitSeq(address, ",") {
		one = strings.TrimSpace(one)
		if !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		if err != nil || u.Host == "" {
			return "", false, fmt.Errorf(
				"client: the address of Millrace must look like nats://host:4222 or http://host:8075",
			)
		}
		switch u.Scheme {
		case "http", "https":
			overHTTP = true
		case "nats", "tls", "ws", "wss":
		default:
			return "", false, fmt.Errorf(
				"client: the address of Millrace has the scheme %q, not nats, tls, ws, wss, http or https", u.Scheme,
			)
		}
		u.User, u.RawQuery = nil, ""
		all = append(all, u.String())
	}
	if overHTTP && len(all) > 1 {
		return "", false, errors.New("client: over HTTP, there is one address")
	}
	return strings.Join(all, ","), overHTTP, nil
}
