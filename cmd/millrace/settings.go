package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/auth"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"

	schema "github.com/millrace-io/millrace/schemas/clickhouse"
)

// pipelineSettings say what the pipeline is.
type pipelineSettings struct {
	Stages stages `help:"Stages of the pipeline, in order, separated by commas." env:"MILLRACE_STAGES" default:"crawled,indexed,classified,routed,published"`
}

type stages struct{ event.Stages }

func (s *stages) UnmarshalText(text []byte) (err error) {
	s.Stages, err = event.ParseStages(string(text))
	return err
}

// installed returns the stages of the installation that a connection leads to,
// as it has published them; the settings' own if it has not.
func (s pipelineSettings) installed(ctx context.Context, nc *nats.Conn, log *slog.Logger) (event.Stages, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return event.Stages{}, err
	}
	stages, err := stream.Pipeline(ctx, js)
	if ctx.Err() != nil {
		return stages, ctx.Err()
	}
	own := strings.Join(s.Stages.Names(), ",")
	if err != nil || len(stages.Names()) == 0 { // an earlier release, or none yet
		log.Warn("the installation has not published its stages; going by MILLRACE_STAGES", "stages", own, "error", err)
		return s.Stages.Stages, nil
	}
	if published := strings.Join(stages.Names(), ","); published != own && own != event.DefaultStages {
		log.Warn("the installation has other stages than MILLRACE_STAGES; going by the installation's", "installation",
			published, "setting", own)
	}
	return stages, nil
}

// streamSettings shape the streams.
type streamSettings struct {
	Replicas    int           `help:"Copies of each stream: 1, or 3 on a cluster." env:"MILLRACE_NATS_REPLICAS" name:"nats-replicas" default:"1"`
	DedupWindow time.Duration `help:"How long the broker drops messages whose Nats-Msg-Id it has seen, for clients that send one. Each id takes 230 bytes of memory, and whoever may publish can use up another client's id for that long. At least 100ms. The projector drops all repeats in any case." env:"MILLRACE_DEDUP_WINDOW" default:"100ms"`
	MaxAge      time.Duration `help:"How long the stream keeps folded events." env:"MILLRACE_EVENTS_MAX_AGE" name:"events-max-age" default:"168h"`
	AckWait     time.Duration `help:"The lease of shards: how long a worker may say nothing of one that it pulled before another gets it. Queues of your own have their lease_s." env:"MILLRACE_WORK_ACK_WAIT" name:"work-ack-wait" default:"30s"`
	MaxBytes    int64         `help:"Size of the event stream in bytes above which it refuses new events; 0: unlimited." env:"MILLRACE_EVENTS_MAX_BYTES" name:"events-max-bytes" default:"0"`
}

// config has no stages: those of the process that counts are published.
func (s streamSettings) config() stream.Config {
	return stream.Config{Replicas: s.Replicas, DedupWindow: s.DedupWindow, MaxBytes: s.MaxBytes}
}

func (s streamSettings) work() stream.WorkConfig {
	return stream.WorkConfig{Replicas: s.Replicas, AckWait: s.AckWait}
}

// httpSettings shape the HTTP server.
type httpSettings struct {
	Addr            string        `help:"Address of the HTTP server." env:"MILLRACE_HTTP_ADDR" name:"http-addr" default:"127.0.0.1:8075"`
	JWTSecret       string        `help:"Secret that signs tokens (HS256). Without it, callers need none, and the server listens on loopback only." env:"AUTH_JWT_SECRET" name:"jwt-secret"`
	AnonymousIngest bool          `help:"Let callers without a token publish events." env:"MILLRACE_ANONYMOUS_INGEST" name:"anonymous-ingest"`
	AllowedOrigins  []string      `help:"Origins, beside the server's own, whose pages may open the WebSocket. Without a secret, also the host names under which the server answers." env:"MILLRACE_ALLOWED_ORIGINS" name:"allowed-origins"`
	MetricsAuth     bool          `help:"Let only callers with a token of the scope read see /metrics." env:"MILLRACE_METRICS_AUTH" name:"metrics-auth"`
	Drain           time.Duration `help:"How long the server answers after a signal to end, while /ready says that it ends: time for balancers to send callers elsewhere." env:"MILLRACE_DRAIN" name:"drain" default:"0s"`
	Limits          limitSettings `embed:""`
}

// metricsGuard is who decides about reading the metrics; nil: everybody may.
func (s httpSettings) metricsGuard() (func(http.Handler) http.Handler, error) {
	if !s.MetricsAuth {
		return nil, nil
	}
	a := auth.New(auth.Config{Secret: s.JWTSecret})
	if !a.Protected() {
		return nil, errors.New("MILLRACE_METRICS_AUTH wants tokens of those who read /metrics, but nothing signs " +
			"any: set AUTH_JWT_SECRET")
	}
	return a.Require(auth.Read), nil
}

// clickhouseLogin is where programs reach the embedded ClickHouse, and how they log in.
type clickhouseLogin struct {
	Listen   string `help:"Native protocol of the embedded ClickHouse." env:"MILLRACE_CLICKHOUSE_LISTEN" name:"clickhouse-listen" default:"127.0.0.1:9000"`
	Password string `help:"Password of the login default, which may write; generated into the data folder when empty." env:"MILLRACE_CLICKHOUSE_PASSWORD" name:"clickhouse-password"`
}

// clickhouseServer shapes the embedded ClickHouse server.
type clickhouseServer struct {
	clickhouseLogin `embed:""`
	HTTP            string `help:"HTTP interface of the embedded ClickHouse." env:"MILLRACE_CLICKHOUSE_HTTP" name:"clickhouse-http" default:"127.0.0.1:8123"`
	AnalystPassword string `help:"Password of the login analyst, which may only read." env:"MILLRACE_CLICKHOUSE_ANALYST_PASSWORD" name:"clickhouse-analyst-password"`
	MaxMemory       int64  `help:"Memory that the embedded ClickHouse may take, in bytes." env:"MILLRACE_CLICKHOUSE_MAX_MEMORY" name:"clickhouse-max-memory" default:"1073741824"`

	MaxTime time.Duration `help:"How long a statement of the login default may take in the embedded ClickHouse." env:"MILLRACE_CLICKHOUSE_MAX_TIME" name:"clickhouse-max-time" default:"1h"`
}

// check refuses to open the server to other machines without a password for
// analysts; that of the login default is generated where it is not set.
func (s clickhouseServer) check() error {
	for setting, addr := range map[string]string{
		"MILLRACE_CLICKHOUSE_LISTEN": s.Listen,
		"MILLRACE_CLICKHOUSE_HTTP":   s.HTTP,
	} {
		if !loopback(addr) && s.AnalystPassword == "" {
			return fmt.Errorf("%s=%s is open to other machines: set MILLRACE_CLICKHOUSE_ANALYST_PASSWORD, or listen "+
				"on 127.0.0.1", setting, addr)
		}
	}
	return nil
}

// options returns how the other parts connect to the server.
func (s clickhouseServer) options() *clickhouse.Options {
	return &clickhouse.Options{
		Addr: []string{dialable(s.Listen)},
		Auth: clickhouse.Auth{Database: "millrace", Username: "default", Password: s.Password},
	}
}

// sharedSettings name servers that are not embedded.
type sharedSettings struct {
	NATS       string `help:"URL of a NATS server with JetStream." env:"MILLRACE_NATS_URL" name:"nats-url"`
	ClickHouse string `help:"DSN of a ClickHouse server: clickhouse://user:password@host:9000/millrace" env:"MILLRACE_CLICKHOUSE_DSN" name:"clickhouse-dsn"`
	Cluster    string `help:"Name of a ClickHouse cluster, as its servers' configuration has it: tables are then replicated and distributed over it." env:"MILLRACE_CLICKHOUSE_CLUSTER" name:"clickhouse-cluster"`
	Postgres   string `help:"DSN of a Postgres server: postgres://user:password@host:5432/millrace" env:"MILLRACE_POSTGRES_DSN" name:"postgres-dsn"`

	NATSLogin natsLogin `embed:""`
}

// require returns an error unless both servers are named.
func (s sharedSettings) require() error {
	if s.NATS == "" || s.ClickHouse == "" {
		return errors.New("set MILLRACE_NATS_URL and MILLRACE_CLICKHOUSE_DSN, or use \"millrace up\", which brings " +
			"its own servers")
	}
	return nil
}

func (s sharedSettings) clickhouseOptions() (*clickhouse.Options, error) {
	o, err := clickhouse.ParseDSN(s.ClickHouse)
	if err != nil {
		return nil, fmt.Errorf("MILLRACE_CLICKHOUSE_DSN: %w", err)
	}
	if s.Cluster != "" {
		if o.Settings == nil {
			o.Settings = clickhouse.Settings{}
		}
		o.Settings["distributed_foreground_insert"] = 1 // what is confirmed is there
	}
	return o, nil
}

// topology says how the tables of the server are spread. The embedded one has no
// cluster.
func (s sharedSettings) topology() schema.Topology {
	if s.ClickHouse == "" {
		return schema.Topology{}
	}
	return schema.Topology{Cluster: s.Cluster}
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// dialable turns an address to listen on into one to connect to.
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || (host != "" && host != "0.0.0.0" && host != "::") {
		return addr
	}
	return net.JoinHostPort("127.0.0.1", port)
}

func orDefault(s, fallback string) string {
	if strings.TrimSpace(s) == "" {
		return fallback
	}
	return s
}
