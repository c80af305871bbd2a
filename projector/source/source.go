// Package source reads a JetStream stream in order and without gaps, in
// chunks, with a bound on what is read ahead.
package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Config of a Source. The zero value of a field stands for its default.
type Config struct {
	Stream   string
	Consumer string   // how the consumer's name begins, for operators to see
	Subjects []string // which messages to read; default all
	// ReadAhead bounds the messages that are asked for and not yet taken;
	// default 32,768. ReadAheadBytes bounds them in bytes; default 32 MiB.
	ReadAhead      int
	ReadAheadBytes int
}

// Message is one of the stream.
type Message struct {
	Subject string
	Data    []byte
	Seq     uint64
	Time    int64 // when the stream received it, Unix nanoseconds
	// Pending counts the messages of the stream behind this one.
	Pending uint64
}

// Source reads a stream from a position on. It is not safe for concurrent use,
// but for CaughtUp.
type Source struct {
	cfg Config
	nc  *nats.Conn
	js  jetstream.JetStream
	log *slog.Logger

	mu         sync.Mutex
	name       string // of the consumer
	last       uint64 // stream sequence of the last message received
	consumer   uint64 // consumer sequence of the last message received
	ready      []Message
	readyBytes int
	asked      int // messages asked for and not received
	askedBytes int
	generation int
	sub        *nats.Subscription
	alive      time.Time // when the consumer was last heard of
	reconnects uint64    // of the connection, when the consumer was made
	broken     error     // why the consumer has to be made again
	wake       chan struct{}
}

// New returns a source that will give the messages after the position.
func New(cfg Config, nc *nats.Conn, js jetstream.JetStream, position uint64, log *slog.Logger) *Source {
	if cfg.ReadAhead == 0 {
		cfg.ReadAhead = 32_768
	}
	if cfg.ReadAheadBytes == 0 {
		cfg.ReadAheadBytes = 32 << 20
	}
	return &Source{cfg: cfg, nc: nc, js: js, log: log, last: position, broken: errNew, wake: make(chan struct{}, 1)}
}

const (
	heartbeat   = 2 * time.Second
	silence     = 3 * heartbeat // after which the consumer is made again
	askLifetime = time.Minute
)

var (
	errNew          = errors.New("not yet made")
	errGap          = errors.New("a message is missing")
	errSilent       = errors.New("no sign of life")
	errDisconnected = errors.New("connection lost")
)

// Next returns what has arrived, and waits if nothing has. The slice is the
// caller's. It returns an error only when ctx ends: a lost connection or
// consumer is made again from the last message on.
func (s *Source) Next(ctx context.Context) ([]Message, error) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		if err := s.check(ctx); err != nil {
			return nil, err
		}
		if ms := s.take(); len(ms) > 0 {
			return ms, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.wake:
		case <-tick.C:
		}
	}
}

// take hands over what is ready, and asks for more.
func (s *Source) take() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	ms := s.ready
	s.ready, s.readyBytes = nil, 0
	if len(ms) > 0 {
		s.ready = make([]Message, 0, min(cap(ms), s.cfg.ReadAhead))
	}
	s.ask()
	return ms
}

// ask sends a request when half of the read-ahead is free.
func (s *Source) ask() {
	if s.broken != nil || s.asked+len(s.ready) > s.cfg.ReadAhead/2 || s.askedBytes+s.readyBytes > s.cfg.ReadAheadBytes/2 {
		return
	}
	n := s.cfg.ReadAhead - s.asked - len(s.ready)
	size := s.cfg.ReadAheadBytes - s.askedBytes - s.readyBytes
	request, err := json.Marshal(map[string]any{
		"batch": n, "max_bytes": size, "expires": askLifetime.Nanoseconds(), "idle_heartbeat": heartbeat.Nanoseconds(),
	})
	if err != nil {
		panic("source: numbers do not marshal: " + err.Error())
	}
	subject := fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", s.cfg.Stream, s.name)
	if err := s.nc.PublishRequest(subject, s.sub.Subject, request); err != nil {
		s.fail(err)
		return
	}
	s.asked += n
	s.askedBytes += size
}

// receive is called for each message, by one goroutine a subscription.
func (s *Source) receive(generation int, m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation != s.generation {
		return
	}
	s.alive = time.Now()
	if m.Reply == "" { // the server's own, which has no acknowledgement
		s.status(m)
		return
	}
	meta, err := parseMetadata(m.Reply)
	switch {
	case err != nil:
		s.fail(err)
		return
	case meta.consumer != s.consumer+1 || meta.stream <= s.last:
		s.fail(errGap)
		return
	}
	s.consumer, s.last = meta.consumer, meta.stream
	s.asked = max(0, s.asked-1)
	s.askedBytes = max(0, s.askedBytes-m.Size())
	s.readyBytes += m.Size()
	s.ready = append(s.ready, Message{
		Subject: m.Subject, Data: m.Data, Seq: meta.stream, Time: meta.time, Pending: meta.pending,
	})
	s.signal()
}

// status handles a message of the server about a request (NATS ADR-13).
func (s *Source) status(m *nats.Msg) {
	switch code := m.Header.Get("Status"); code {
	case "100": // heartbeat
	case "404", "408", "409":
		s.forget(m)
		if d := m.Header.Get("Description"); code == "409" && (d == "Consumer Deleted" || d == "Leadership Change" || d == "Server Shutdown") {
			s.fail(errors.New(d))
			return
		}
		s.signal()
	case "503":
		s.fail(errSilent)
	}
}

// forget takes back what a request that has ended will not deliver.
func (s *Source) forget(m *nats.Msg) {
	n, errN := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	size, errSize := strconv.Atoi(m.Header.Get("Nats-Pending-Bytes"))
	if errN != nil || errSize != nil {
		s.asked, s.askedBytes = 0, 0
		return
	}
	s.asked, s.askedBytes = max(0, s.asked-n), max(0, s.askedBytes-size)
}

func (s *Source) fail(err error) {
	if s.broken == nil {
		s.broken = err
	}
	s.signal()
}

func (s *Source) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// CaughtUp asks the broker whether everything has been received. It returns the
// last sequence received and the end of the stream, or 0 where messages are
// left. The broker's own count of them is good enough to show, and for nothing
// that must be exact. CaughtUp may be called beside Next.
func (s *Source) CaughtUp(ctx context.Context) (last, end uint64, err error) {
	s.mu.Lock()
	name, consumer, last := s.name, s.consumer, s.last
	s.mu.Unlock()
	str, err := s.js.Stream(ctx, s.cfg.Stream)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for the end of stream %s: %w", s.cfg.Stream, err)
	}
	c, err := str.Consumer(ctx, name)
	if err != nil {
		return 0, 0, fmt.Errorf("ask for consumer %s: %w", name, err)
	}
	if info := c.CachedInfo(); info.NumPending > 0 || info.Delivered.Consumer != consumer {
		return last, 0, nil
	}
	return last, str.CachedInfo().State.LastSeq, nil
}

// Close stops reading. The server removes the consumer soon after.
func (s *Source) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation++
	if s.sub != nil {
		_ = s.sub.Unsubscribe() // it ends with the connection at the latest
		s.sub = nil
	}
}
