package main

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// subscriberQuestion is what a share of the subscribers subscribe to.
type subscriberQuestion struct {
	view   string
	params string // members of the message
	source string // whose changes alone are shown; empty: all
	share  int    // of a hundred subscribers
}

// subscriberQuestions are the subscribers' mixture. A funnel without reclassifications is
// not among them: it is counted at most once in 5 seconds.
var subscriberQuestions = []subscriberQuestion{
	{view: "funnel", params: `"period":"today","tz":"UTC"`, share: 20},
	{view: "funnel", params: `"period":"today","tz":"Europe/Berlin"`, share: 10},
	{view: "funnel", params: `"period":"today","tz":"America/New_York"`, share: 5},
	{view: "funnel", params: `"period":"today","tz":"Asia/Tokyo"`, share: 5},
	{view: "funnel", params: `"period":"24h"`, share: 10},
	{view: "funnel", params: `"period":"7d"`, share: 4},
	{view: "funnel", params: `"period":"30d"`, share: 2},
	{view: "funnel", params: `"period":"today","source":"source_0"`, source: "source_0", share: 2},
	{view: "funnel", params: `"period":"24h","source":"source_7"`, source: "source_7", share: 2},
	{view: "queues", share: 16},
	{view: "lag", share: 12},
	{view: "dlq", share: 12},
}

func subscriberViews() (views []string) {
	for _, q := range subscriberQuestions {
		if !slices.Contains(views, q.view) {
			views = append(views, q.view)
		}
	}
	return views
}

func subscriberSources() (sources []string) {
	for _, q := range subscriberQuestions {
		if q.source != "" {
			sources = append(sources, q.source)
		}
	}
	return sources
}

// subscriberClocks are whose positions the views show.
var subscriberClocks = map[string]string{"funnel": "events", "lag": "events", "queues": "items", "dlq": "letters"}

// subscriberState is what a message shows of the views.
type subscriberState struct {
	Funnel *struct {
		Stream struct {
			Folded uint64 `json:"folded_seq"`
		}
	}
	Lag *struct {
		Last uint64 `json:"last_seq"`
	}
	Queues *struct {
		Queues []struct {
			Name                                  string
			Ready, Delayed, Running, Done, Failed uint64
		}
	}
	DLQ   *struct{ Count uint64 }
	Error json.RawMessage
}

// position is how far a message has come on its view's clock.
func (s *subscriberState) position() (at uint64, err error) {
	switch {
	case s.Funnel != nil:
		return s.Funnel.Stream.Folded, nil
	case s.Lag != nil:
		return s.Lag.Last, nil
	case s.DLQ != nil:
		return s.DLQ.Count, nil
	case s.Queues != nil:
		for _, q := range s.Queues.Queues {
			if q.Name == subscriberQueue {
				at = q.Ready + q.Delayed + q.Running + q.Done + q.Failed
			}
		}
		return at, nil
	}
	if len(s.Error) > 0 {
		return problemAt, nil
	}
	return 0, errors.New("it has no state")
}

// problemAt is the position of a message that a view cannot be shown at present.
const problemAt = math.MaxUint64

// receipt is a message that a subscriber has received.
type receipt struct {
	reader int32
	at     int64 // Unix microseconds
	to     uint64
}

// reader is one subscriber.
type reader struct {
	question *subscriberQuestion
	socket   *os.File
	begun    []byte // of a frame that has not come whole
	messages int
	at       uint64 // the position of the last message
	lost     bool   // its connection has ended
}

// subscribers are those of this process.
type subscribers struct {
	readers   []*reader
	deaf      []*os.File        // of those that never read
	positions map[uint64]uint64 // of messages, by their hashes
	receipts  []receipt
	bytes     int64
	begun     int   // readers that have received something
	lost      error // why the last of the connections that have ended did
	problems  int   // messages that a view cannot be shown at present
	seed      maphash.Seed
	inflate   io.ReadCloser
}

// subscriberAges are the median, the 99th percentile and the worst, in milliseconds.
type subscriberAges struct{ Durable, Sent, Shown [3]float64 }

// subscriberSeen is what the subscribers report.
type subscriberSeen struct {
	Received    int                       // messages, while it was measured
	Messages    int                       // in all
	Bytes       int64                     // of them
	Missing     int                       // changes that a subscriber was never told of
	Lost        int                       // subscribers whose connections ended
	Why         string                    // of the last of them
	Problems    int                       // messages that a view could not be shown
	Views       map[string]subscriberAges // by view; "" are all
	WorstReader float64                   // the worst 99th percentile of a subscriber
}

// watchSubscribers subscribes, says so, receives until it is told to end, and says what
// it has seen of the marks that it is left.
func watchSubscribers(ctx context.Context, cfg partConfig) error {
	c := &subscribers{positions: map[uint64]uint64{}, seed: maphash.MakeSeed(), inflate: flate.NewReader(nil)}
	if err := c.subscribe(ctx, cfg); err != nil {
		return err
	}
	if err := c.receive(ctx, nil); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(cfg.Dir, marksFile))
	if err != nil {
		return nil // nothing was measured
	}
	var marks []mark
	if err := json.Unmarshal(text, &marks); err != nil {
		return fmt.Errorf("read the marks: %w", err)
	}
	late, cancel := context.WithTimeout(context.Background(), subscriberPatience)
	defer cancel()
	if err := c.receive(late, c.needs(marks)); err != nil {
		return err
	}
	seen := c.compare(marks)
	seen.Messages, seen.Bytes, seen.Problems = len(c.receipts), c.bytes, c.problems
	if c.lost != nil {
		seen.Why = c.lost.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

// needs returns how far each reader has to come to have been told of all marks.
func (c *subscribers) needs(marks []mark) []uint64 {
	last := map[*subscriberQuestion]uint64{}
	for i := range subscriberQuestions {
		q := &subscriberQuestions[i]
		for k := range marks {
			if at := q.shows(&marks[k]); at > 0 {
				last[q] = at
			}
		}
	}
	need := make([]uint64, len(c.readers))
	for i, r := range c.readers {
		need[i] = last[r.question]
	}
	return need
}

// has tells whether all readers have come so far.
func (c *subscribers) has(need []uint64) bool {
	for i, r := range c.readers {
		if !r.lost && r.at < need[i] {
			return false
		}
	}
	return true
}

// shows returns the position at which what is asked for shows a change; 0: it is none of its own.
func (q *subscriberQuestion) shows(m *mark) uint64 {
	switch {
	case m.Clock != subscriberClocks[q.view]:
		return 0
	case q.source != "":
		return m.Sources[q.source]
	}
	return m.At
}

// subscribe opens all connections.
func (c *subscribers) subscribe(ctx context.Context, cfg partConfig) error {
	var shared []*subscriberQuestion // each as often as its share
	for i := range subscriberQuestions {
		shared = append(shared, slices.Repeat([]*subscriberQuestion{&subscriberQuestions[i]},
			subscriberQuestions[i].share)...)
	}
	c.deaf = make([]*os.File, cfg.Deaf)
	c.readers = make([]*reader, cfg.Subscribers)
	g, _ := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for i := range c.deaf {
		g.Go(func() (err error) {
			c.deaf[i], err = openSubscription(cfg.HTTP, &subscriberQuestions[0])
			return err
		})
	}
	for i := range c.readers {
		g.Go(func() error {
			q := shared[i*37%len(shared)]
			socket, err := openSubscription(cfg.HTTP, q)
			c.readers[i] = &reader{question: q, socket: socket}
			return err
		})
	}
	return g.Wait() // the connections end with the process
}

// openSubscription opens a WebSocket by hand, so that a client costs as little
// as it can, and subscribes. Go's poller does not watch the file.
func openSubscription(addr string, q *subscriberQuestion) (*os.File, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("open a WebSocket: %w", err)
	}
	defer conn.Close() // the file is a copy
	_, err = fmt.Fprintf(conn, "GET /api/v1/live HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"+
		"Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover; server_no_context_takeover\r\n\r\n", addr)
	if err != nil {
		return nil, fmt.Errorf("open a WebSocket: %w", err)
	}
	var answer []byte
	for one := make([]byte, 1); !bytes.HasSuffix(answer, []byte("\r\n\r\n")); answer = append(answer, one...) {
		if _, err := conn.Read(one); err != nil {
			return nil, fmt.Errorf("open a WebSocket: %w", err)
		}
	}
	if !bytes.HasPrefix(answer, []byte("HTTP/1.1 101 ")) {
		return nil, fmt.Errorf("open a WebSocket: %s", answer)
	}
	text := `{"op":"subscribe","id":"a","view":"` + q.view + `","epoch":"","seq":0`
	if q.params != "" {
		text += "," + q.params
	}
	if _, err = conn.Write(clientFrame(0x1, []byte(text+"}"))); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return unwatchedCopy(conn.(*net.TCPConn))
}

// clientFrame is a frame of up to 64 KiB, masked by zeros.
func clientFrame(kind byte, data []byte) []byte {
	frame := []byte{0x80 | kind}
	if len(data) < 126 {
		frame = append(frame, 0x80|byte(len(data)))
	} else {
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(len(data)))
	}
	return append(append(frame, 0, 0, 0, 0), data...)
}

// frame takes the first frame off data; whole is false when it has not come
// whole.
func frame(data []byte) (head byte, payload, rest []byte, whole bool) {
	if len(data) < 2 {
		return 0, nil, data, false
	}
	size, at := int(data[1]), 2
	switch {
	case size == 126 && len(data) >= 4:
		size, at = int(binary.BigEndian.Uint16(data[2:])), 4
	case size == 127 && len(data) >= 10:
		size, at = int(binary.BigEndian.Uint64(data[2:])), 10
	case size >= 126:
		return 0, nil, data, false
	}
	if len(data) < at+size {
		return 0, nil, data, false
	}
	return data[0], data[at : at+size], data[at+size:], true
}

// take notes what a subscriber has received.
func (c *subscribers) take(i int, data []byte) error {
	r, now := c.readers[i], time.Now().UnixMicro()
	c.bytes += int64(len(data))
	if len(r.begun) > 0 {
		data = append(r.begun, data...)
	}
	for {
		head, payload, rest, whole := frame(data)
		if !whole {
			r.begun = append(r.begun[:0:0], rest...)
			return nil
		}
		data = rest
		switch head & 0xf {
		case 0x1:
			to, err := c.position(head&0x40 != 0, payload)
			if err != nil {
				return err
			}
			if r.messages++; r.messages == 1 {
				c.begun++
			}
			if to == problemAt {
				c.problems++
				continue
			}
			r.at = to
			c.receipts = append(c.receipts, receipt{int32(i), now, to})
		case 0x8:
			return io.EOF
		case 0x9:
			if _, err := r.socket.Write(clientFrame(0xa, payload)); err != nil {
				return err
			}
		}
	}
}

// position returns the position of a message, which is read once for all who
// receive it.
func (c *subscribers) position(compressed bool, payload []byte) (uint64, error) {
	sum := maphash.Bytes(c.seed, payload)
	if at, known := c.positions[sum]; known {
		return at, nil
	}
	if compressed {
		tail := "\x00\x00\xff\xff\x01\x00\x00\xff\xff" // what was cut off, and an end
		in := io.MultiReader(bytes.NewReader(payload), bytes.NewReader([]byte(tail)))
		if err := c.inflate.(flate.Resetter).Reset(in, nil); err != nil {
			return 0, err
		}
		text, err := io.ReadAll(c.inflate)
		if err != nil {
			return 0, fmt.Errorf("inflate: %w", err)
		}
		payload = text
	}
	var state subscriberState
	if err := json.Unmarshal(payload, &state); err != nil {
		return 0, fmt.Errorf("received %s: %w", payload, err)
	}
	at, err := state.position()
	if err != nil {
		return 0, fmt.Errorf("received %s: %w", payload, err)
	}
	c.positions[sum] = at
	return at, nil
}
