package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/embedded/port"
)

const (
	subscriberRate  = 10_000                // events a second while the subscribers watch
	subscriberEvery = 50 * time.Millisecond // between two batches of them
	subscriberQueue = "bench-subscribers"
	// subscriberPatience bounds the waiting for the subscribers to subscribe, to have
	// everything, and for those that never read to be gone.
	subscriberPatience = 2 * time.Minute
)

// subscriberShape says how many watch for how long.
type subscriberShape struct {
	subscribers, deaf int // deaf ones never read
	window            time.Duration
}

func (b *bench) subscriberShape() subscriberShape {
	s := subscriberShape{subscribers: b.cfg.subscribers, deaf: b.cfg.subscribers / 20, window: 30 * time.Second}
	if b.cfg.events < 100_000 {
		s.subscribers, s.deaf, s.window = 40, 2, 500*time.Millisecond
	}
	return s
}

// subscribers measures how old what many subscribers of mixed views receive is, while
// events flow and work goes on. The subscribers are one process of their own, on
// the same processors as the program.
func (b *bench) subscribers(ctx context.Context) (err error) {
	m, err := b.ready(ctx)
	if err != nil {
		return err
	}
	shape := b.subscriberShape()
	b.say("%d subscribers and %d that never read: they and the program share the %d cores",
		shape.subscribers, shape.deaf, thisMachine().Cores)
	dir, err := b.folder("subscribers-*")
	if err != nil {
		return err
	}
	if err := m.post(ctx, "/queues", map[string]any{"name": subscriberQueue}, nil); err != nil {
		return err
	}
	server := m
	if b.cfg.apart {
		if server, err = b.queryRole(ctx, m); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.close()) }()
	}
	out := newLines()
	clients, err := start("subscribers", partConfig{
		Dir: dir, HTTP: server.http, Subscribers: shape.subscribers, Deaf: shape.deaf,
	}, out)
	if err != nil {
		return err
	}
	err = b.watched(ctx, m, server, shape, dir, clients, out)
	if err != nil && clients.ProcessState == nil {
		err = errors.Join(err, clients.stop())
	}
	if err != nil {
		return err
	}
	return b.awaitFolded(ctx, m)
}

// queryRole starts a process beside the program that serves its views, and nothing else. Its environment has env on top.
func (b *bench) queryRole(ctx context.Context, m *millrace, env ...string) (*millrace, error) {
	addrs, err := port.Reserve(2)
	if err != nil {
		return nil, err
	}
	postgres, err := m.postgresURL()
	if err != nil {
		return nil, err
	}
	data, err := b.folder("query-*")
	if err != nil {
		return nil, err
	}
	q := &millrace{http: addrs[0], profile: addrs[1]}
	args := []string{
		"--log-format=json", "serve", "--role=query", "--data=" + data, "--http-addr=" + q.http, "--nats-url=" + natsURL(m.nats),
		"--clickhouse-dsn=clickhouse://default:" + chPassword + "@" + m.clickhouse + "/millrace",
		"--postgres-dsn=" + postgres.String(), "--live-connections=" + strconv.Itoa(b.cfg.subscribers*2),
	}
	if b.cfg.profile != "" {
		args = append(args, "--pprof-addr="+q.profile)
	}
	if q.program, err = launch(b.cfg.bin, args, env); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, subscriberPatience)
	defer cancel()
	if _, err := q.await(ctx, "HTTP server listens"); err != nil {
		return nil, errors.Join(err, q.close())
	}
	return q, nil
}

// watched presses while they watch, and adds what it has seen.
func (b *bench) watched(
	ctx context.Context, m, server *millrace, shape subscriberShape, dir string, clients *part, out *outputLines,
) error {
	begin := time.Now()
	if _, err := out.next(ctx, subscriberPatience); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	b.say("subscribed in %.1f s; %d events/s for %s", time.Since(begin).Seconds(), subscriberRate, shape.window)
	profiled := b.profile(ctx, server, max(1, int(shape.window.Seconds())-2))
	memory := watchResident(server.pid())
	type departures struct {
		after []time.Duration
		err   error
	}
	left := make(chan departures, 1)
	go func() {
		after, err := server.departures(ctx, begin, shape)
		left <- departures{after, err}
	}()
	before := b.subscriberSpent(m, server, clients)
	marks, err := b.flow(ctx, m, shape.window)
	after := b.subscriberSpent(m, server, clients)
	gone := <-left
	peak := memory.end()
	if err := errors.Join(err, <-profiled, b.heapProfile(ctx, server), gone.err); err != nil {
		return err
	}
	for i := range marks {
		k := &marks[i]
		k.Shown = k.Durable
		if at, ok := m.announced.of(k.Seq); ok && k.Seq > 0 {
			k.Shown = at.UnixMicro()
		}
	}
	seen, err := told(ctx, dir, marks, clients, out)
	if err != nil {
		return err
	}
	if seen.Problems > 0 {
		b.say("%d times a subscriber was told that its view cannot be shown at present", seen.Problems)
	}
	plain, err := b.broadcast(ctx, shape, seen.rate(shape))
	if err != nil {
		return err
	}
	b.addSubscribers(shape, seen, plain, marks, peak, after.less(before), gone.after)
	b.addAnnounced(m, shape, marks)
	return nil
}

// told leaves the marks to the subscribers, has them end, and returns what they have
// seen, which is all.
func told(
	ctx context.Context, dir string, marks []mark, clients *part, out *outputLines,
) (seen subscriberSeen, err error) {
	text, err := json.Marshal(marks)
	if err != nil {
		return seen, fmt.Errorf("write the marks: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, marksFile), text, 0o600); err != nil {
		return seen, fmt.Errorf("write the marks: %w", err)
	}
	if err := clients.stop(); err != nil {
		return seen, err
	}
	line, err := out.next(ctx, subscriberPatience)
	if err != nil {
		return seen, err
	}
	if err := json.Unmarshal(line, &seen); err != nil {
		return seen, fmt.Errorf("the subscribers' report %s: %w", line, err)
	}
	if seen.Missing > 0 || seen.Lost > 0 {
		return seen, fmt.Errorf("%d changes were never received, %d subscribers lost their connection: %s",
			seen.Missing, seen.Lost, seen.Why)
	}
	return seen, nil
}

// subscriberTime is the processor time of all that share the processors.
type subscriberTime struct{ server, engines, clients, publisher time.Duration }

func (b *bench) subscriberSpent(m, server *millrace, clients *part) (t subscriberTime) {
	t = subscriberTime{
		server: spentBy(server.pid()), clients: spentBy(clients.Process.Pid), publisher: spentBy(os.Getpid()),
	}
	t.engines = spentByFamily(m.pid())
	if server == m {
		t.engines -= t.server
	}
	return t
}

func (t subscriberTime) less(u subscriberTime) subscriberTime {
	return subscriberTime{t.server - u.server, t.engines - u.engines, t.clients - u.clients, t.publisher - u.publisher}
}

// mark is a change that subscribers have to be told of.
type mark struct {
	Clock  string // whose position At is: that of events, items or letters
	At     uint64
	Seq    uint64 // of the event on the stream; 0: it is none
	Events int    // published with it
	// Sources are those of the events that are watched, with the sequence of the last
	// event of each: a batch of the projector may end behind it.
	Sources map[string]uint64
	Sent    int64 // when it was, in Unix microseconds
	Durable int64 // when that was acknowledged
	Shown   int64 // when the view had it; of events, valid or not, when their batch was announced
}

// marksFile is where the marks are left for the subscribers.
const marksFile = "marks.json"

// flow publishes events, and some work and invalid events beside, for a while.
// The marks of each clock are in the order of its positions.
func (b *bench) flow(ctx context.Context, m *millrace, window time.Duration) ([]mark, error) {
	var mu sync.Mutex
	var marks []mark
	note := func(k mark, sent time.Time) {
		k.Sent, k.Durable = sent.UnixMicro(), time.Now().UnixMicro()
		mu.Lock()
		defer mu.Unlock()
		marks = append(marks, k)
	}
	end := time.Now().Add(window)
	g, beating := errgroup.WithContext(ctx)
	beat := func(every time.Duration, do func(sent time.Time) error) {
		g.Go(func() error {
			t := time.NewTicker(every)
			defer t.Stop()
			for time.Now().Before(end) {
				if err := do(time.Now()); err != nil {
					return err
				}
				select {
				case <-t.C:
				case <-beating.Done():
					return beating.Err()
				}
			}
			return nil
		})
	}
	var batches errgroup.Group
	batches.SetLimit(16)
	beat(subscriberEvery, func(sent time.Time) error {
		batch, sources, err := b.subscriberBatch()
		if err != nil {
			return err
		}
		batches.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, subscriberPatience)
			defer cancel()
			ack, err := jetstreamext.PublishMsgBatch(ctx, m.js, batch, jetstreamext.BatchFlowControl{})
			if err != nil {
				return fmt.Errorf("publish: %w", err)
			}
			k := mark{Clock: "events", At: ack.Sequence, Seq: ack.Sequence, Events: len(batch), Sources: map[string]uint64{}}
			for source, place := range sources {
				k.Sources[source] = ack.Sequence - uint64(len(batch)-1-place)
			}
			note(k, sent)
			return nil
		})
		return nil
	})
	var items, letters uint64
	beat(100*time.Millisecond, func(sent time.Time) error {
		items += 10
		body := map[string]any{"items": slices.Repeat([]map[string]any{{"payload": map[string]any{"n": items}}}, 10)}
		if err := m.post(ctx, "/queues/"+subscriberQueue+"/items", body, nil); err != nil {
			return err
		}
		note(mark{Clock: "items", At: items}, sent)
		return nil
	})
	beat(200*time.Millisecond, func(time.Time) error {
		return m.post(ctx, "/queues/"+subscriberQueue+"/take",
			map[string]any{"worker": "bench", "limit": 5, "lease_s": 600}, nil)
	})
	beat(500*time.Millisecond, func(sent time.Time) error {
		ctx, cancel := context.WithTimeout(ctx, subscriberPatience)
		defer cancel()
		ack, err := m.js.Publish(ctx, "events.crawled.00", []byte(`{"no":"event"}`))
		if err != nil {
			return fmt.Errorf("publish an invalid event: %w", err)
		}
		letters++
		note(mark{Clock: "letters", At: letters, Seq: ack.Sequence}, sent)
		return nil
	})
	if err := errors.Join(g.Wait(), batches.Wait()); err != nil {
		return nil, err
	}
	slices.SortFunc(marks, func(a, b mark) int { return int(int64(a.At) - int64(b.At)) })
	return marks, nil
}

// subscriberBatch makes what is published at once, and says where in it is the last event of
// each of the sources that are watched.
func (b *bench) subscriberBatch() (batch []*nats.Msg, sources map[string]int, err error) {
	sources = map[string]int{}
	for i := range int(subscriberRate * subscriberEvery / time.Second) {
		msg, err := b.posts.message()
		if err != nil {
			return nil, nil, err
		}
		m := natsMessage(msg)
		batch = append(batch, m)
		for _, source := range subscriberSources() {
			if bytes.Contains(m.Data, []byte(`"source_name":"`+source+`"`)) {
				sources[source] = i
			}
		}
	}
	return batch, sources, nil
}

// post posts a body that has to be taken.
func (m *millrace) post(ctx context.Context, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.http+"/api/v1"+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	status := http.StatusOK
	if resp.StatusCode == http.StatusCreated {
		status = http.StatusCreated
	}
	return decode(resp, status, into)
}

// departures waits until those that never read are gone, and returns when
// each of them went. The server tells, since they do not look.
func (m *millrace) departures(ctx context.Context, begin time.Time, shape subscriberShape) ([]time.Duration, error) {
	if shape.window < time.Second {
		return nil, nil // they are cut off after a minute
	}
	var gone []time.Duration
	for deadline := time.Now().Add(subscriberPatience); len(gone) < shape.deaf && time.Now().Before(deadline); {
		n, err := m.gauge(ctx, "millrace_live_connections")
		if err != nil {
			return nil, err
		}
		for n < float64(shape.subscribers+shape.deaf-len(gone)) {
			gone = append(gone, time.Since(begin))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return gone, nil
}

// gauge reads a metric without labels.
func (m *millrace) gauge(ctx context.Context, name string) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("read metrics: there is no %s (%w)", name, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// outputLines are the lines that a part prints.
type outputLines struct {
	*io.PipeWriter
	lines chan []byte
}

func newLines() *outputLines {
	r, w := io.Pipe()
	o := &outputLines{w, make(chan []byte, 16)}
	go func() {
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadBytes('\n')
			if err != nil {
				close(o.lines)
				return
			}
			o.lines <- text
		}
	}()
	return o
}

func (o *outputLines) next(ctx context.Context, patience time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case text, ok := <-o.lines:
		if !ok {
			return nil, errors.New("the clients have ended")
		}
		return text, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the clients: %w", ctx.Err())
	}
}
