package dlq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"
)

// ErrNotFound: there is no such letter.
var ErrNotFound = errors.New("there is no such dead letter")

// Invalid says which rule a request breaks.
type Invalid = event.Invalid

// Config shapes the service. The zero value of a field stands for its default.
type Config struct {
	// Stages are those that a replayed event may have. Only Replay needs them.
	Stages event.Stages
	// Timeout bounds each request to NATS; default 5 s.
	Timeout time.Duration
	// MaxScan is the number of letters that one call looks at, at most;
	// default 100,000.
	MaxScan int
}

// Service works on the DLQ stream. It is safe for concurrent use and owns
// nothing that needs closing; the connection is the caller's.
type Service struct {
	cfg       Config
	nc        *nats.Conn
	js        jetstream.JetStream
	publisher *client.Publisher
	log       *slog.Logger
	now       func() time.Time
}

// New returns the service on a connection.
func New(cfg Config, nc *nats.Conn, log *slog.Logger) (*Service, error) {
	if nc == nil || log == nil {
		return nil, errors.New("dead letters: a connection and a logger are needed")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 5 * time.Second
	}
	if cfg.MaxScan == 0 {
		cfg.MaxScan = 100_000
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(cfg.Timeout))
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	publisher, err := client.New(nc, client.Config{Log: log, Forget: true})
	if err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, nc: nc, js: js, publisher: publisher, log: log, now: time.Now}, nil
}

// stream looks the DLQ stream up, which also tells its state.
func (s *Service) stream(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	st, err := s.js.Stream(ctx, stream.DLQ)
	if err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream.DLQ, err)
	}
	return st, nil
}
