package fold

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

	"github.com/millrace-io/millrace/schemas/stream"
)

// reader reads a stream from a position on. One goroutine at a time may use it;
// CaughtUp may be called beside that.
type reader struct {
	cfg StreamConfig
	nc  *nats.Conn
	js  jetstream.JetStream
	log *slog.Logger

	mu         sync.Mutex
	name       string // of the consumer
	inbox      string // messages are sent there
	last       uint64 // stream sequence of the last message received
	known      Known  // one of the messages up to there
	consumer   uint64 // consumer sequence of the last message received
	pending    uint64 // messages behind the last one, as the server said with it
	idle       int    // heartbeats since then
	passed     uint64 // nothing up to here is left, as the consumer says; 0: not known
	ready      []Message
	spare      [][]Message // handed over before the last two
	readyBytes int
	asked      int // messages asked for and not received
	askedBytes int
	sub        *nats.Subscription
	alive      time.Time // when the consumer was last heard of
	broken     error     // why the consumer has to be made again
	wake       chan struct{}
	closed     chan struct{} // closed with the subscription
}

// newReader returns a reader that will give the messages after the position.
func newReader(
	cfg StreamConfig, nc *nats.Conn, js jetstream.JetStream, position uint64, known Known, log *slog.Logger,
) *reader {
	return &reader{
		cfg: cfg.withDefaults(int(nc.MaxPayload())), nc: nc, js: js, log: log, last: position, known: known,
		broken: errNew, wake: make(chan struct{}, 1),
	}
}

const (
	heartbeat   = 500 * time.Millisecond // of a consumer without messages: what CaughtUp knows is up to two old
	silence     = 6 * time.Second        // after which the consumer is made again
	askLifetime = time.Minute
	maxSubjects = 16 << 10 // bytes of a message's subject and reply, which count as its own
)

var (
	errNew          = errors.New("not yet made")
	errGap          = errors.New("a message is missing")
	errSilent       = errors.New("no sign of life")
	errDisconnected = errors.New("connection lost")
)

// Next implements Reader. The error that is not that of ctx is ErrShorter: when a
// connection or consumer is lost, Next makes the consumer again, from the last message
// on.
func (s *reader) Next(ctx context.Context) ([]Message, error) {
	tick := time.NewTicker(silence / 3)
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
func (s *reader) take() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		s.ask()
		return nil
	}
	ms := s.ready
	s.ready, s.readyBytes = nil, 0
	if s.spare = append(s.spare, ms); len(s.spare) > 2 {
		clear(s.spare[0]) // else what a backlog has left there keeps its slabs
		s.ready = s.spare[0][:0]
		s.spare = append(s.spare[:0], s.spare[1:]...)
	}
	s.ask()
	return ms
}

// ask sends a request when half of the read-ahead is free.
func (s *reader) ask() {
	if s.broken != nil || s.asked+len(s.ready) > s.cfg.ReadAhead/2 ||
		s.askedBytes+s.readyBytes > s.cfg.ReadAheadBytes/2 {
		return
	}
	n := s.cfg.ReadAhead - s.asked - len(s.ready)
	size := s.cfg.ReadAheadBytes - s.askedBytes - s.readyBytes
	request, err := json.Marshal(map[string]any{
		"batch": n, "max_bytes": size, "expires": askLifetime.Nanoseconds(), "idle_heartbeat": heartbeat.Nanoseconds(),
	})
	if err != nil {
		panic("input: numbers do not marshal: " + err.Error())
	}
	subject := fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", s.cfg.Stream, s.name)
	if err := s.nc.PublishRequest(subject, s.inbox, request); err != nil {
		s.fail(err)
		return
	}
	s.asked += n
	s.askedBytes += size
}

// receive takes a message of the subscription. It drops messages of a subscription
// that was replaced.
func (s *reader) receive(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Sub != s.sub || s.broken != nil {
		return
	}
	s.alive = time.Now()
	if m.Reply != "" {
		s.message(m)
	} else { // the server's own, which has no acknowledgement
		s.status(m.Header)
	}
	s.signal()
}

// message takes a message of the stream. The caller holds the lock, as for status.
func (s *reader) message(m *nats.Msg) {
	meta, err := parseMetadata(m.Reply)
	switch {
	case err != nil:
		s.fail(err)
		return
	case meta.consumer != s.consumer+1 || meta.stream <= s.last:
		s.fail(errGap)
		return
	}
	size := m.Size()
	s.consumer, s.last, s.known = meta.consumer, meta.stream, Known{meta.stream, time.Unix(0, meta.time)}
	s.pending, s.idle = meta.pending, 0
	s.asked = max(0, s.asked-1)
	s.askedBytes = max(0, s.askedBytes-size)
	s.readyBytes += size
	read := Message{Subject: m.Subject, Data: m.Data, Seq: meta.stream, Time: meta.time, Pending: meta.pending}
	if s.cfg.Traces {
		read.Trace = m.Header.Get(stream.TraceParent)
	}
	s.ready = append(s.ready, read)
}

// status handles a message of the server about a request (NATS ADR-13).
func (s *reader) status(header nats.Header) {
	switch description := header.Get("Description"); header.Get("Status") {
	case "100": // heartbeat
		s.pass(header)
	case "404", "408", "409":
		s.forget(header)
		if description == "Consumer Deleted" || description == "Leadership Change" || description == "Server Shutdown" {
			s.fail(errors.New(description))
		}
	case "503":
		s.fail(errSilent)
	}
}

// pass notes how far the consumer has looked for messages. If the consumer has sent
// more messages than have come, one is missing.
func (s *reader) pass(header nats.Header) {
	seq, errSeq := strconv.ParseUint(header.Get("Nats-Last-Stream"), 10, 64)
	consumer, errConsumer := strconv.ParseUint(header.Get("Nats-Last-Consumer"), 10, 64)
	switch {
	case errSeq != nil || errConsumer != nil:
	case consumer > s.consumer:
		s.fail(errGap)
	case consumer == s.consumer:
		s.passed = seq
		s.beat()
	}
}

// skippedAfter is how many heartbeats without a message show that pending messages
// do not come.
const skippedAfter = 3

// beat counts heartbeats, and tells once if messages that are pending do not come.
func (s *reader) beat() {
	if s.idle++; s.idle == skippedAfter && s.pending > 0 && s.cfg.Skips != nil {
		s.cfg.Skips()
	}
}

// forget takes back what a request that has ended will not deliver.
func (s *reader) forget(header nats.Header) {
	n, errN := strconv.Atoi(header.Get("Nats-Pending-Messages"))
	size, errSize := strconv.Atoi(header.Get("Nats-Pending-Bytes"))
	if errN != nil || errSize != nil {
		s.asked, s.askedBytes = 0, 0
		return
	}
	s.asked, s.askedBytes = max(0, s.asked-n), max(0, s.askedBytes-size)
}

func (s *reader) fail(err error) {
	if s.broken == nil {
		s.broken = err
	}
	s.signal()
}

func (s *reader) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// CaughtUp implements Reader. What it knows is about a second old. The consumer looks
// in what its own server has, which may be less than the stream's leader has.
func (s *reader) CaughtUp() (last, upTo uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last, s.passed
}

// Close implements Reader. The server removes the consumer soon after.
func (s *reader) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sub != nil {
		_ = s.sub.Unsubscribe() // else it ends with the connection
		s.sub = nil
		close(s.closed)
	}
}
