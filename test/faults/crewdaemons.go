package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/stream"
)

// clients is a daemon that works all stages with the client, for one life after
// the other: some end in peace, and some with the connection, in the middle of
// their work.
func (c *crew) clients(ctx context.Context, i int) error {
	random := rand.New(rand.NewPCG(c.seed, 30+uint64(i)))
	for ctx.Err() == nil {
		length := time.Duration(2000+random.IntN(8000)) * time.Millisecond
		life, die := c.live(ctx)
		err := c.life(life, random.Uint64(), length, random.IntN(2) == 0)
		die()
		if err != nil {
			return err
		}
	}
	return nil
}

// life works until its length or ctx is over. What was done in a life that
// ended in peace is acknowledged, but for what the client has said it is not.
func (c *crew) life(ctx context.Context, seed uint64, length time.Duration, peaceful bool) error {
	nc, err := connect(c.workURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	defer context.AfterFunc(ctx, func() {
		if killed(ctx) {
			nc.Close()
		}
	})()
	long := ctx
	ctx, stop := context.WithTimeout(ctx, length)
	defer stop()
	if !peaceful {
		defer context.AfterFunc(ctx, nc.Close)()
	}
	l := &life{
		crew: c, random: rand.New(rand.NewPCG(seed, 1)), refused: map[piece]int{}, since: time.Now(),
		workers: map[string]string{},
	}
	for _, stage := range c.queues {
		l.workers[stage] = fmt.Sprint("client-", c.serial.Add(1))
	}
	errs := make([]error, len(c.queues))
	var all sync.WaitGroup
	for i, stage := range c.queues {
		all.Go(func() {
			errs[i] = client.Work(ctx, nc, stage, l.handle, client.WorkConfig{
				Worker: l.workers[stage], Concurrency: 2, Lease: c.lease, Grace: time.Second, Log: slog.New(l),
				Backoff: func(int) time.Duration { return 300 * time.Millisecond },
			})
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		if peaceful && !killed(long) {
			c.notes.fail("client.Work: %v", err)
		}
		return nil
	}
	if !killed(long) {
		l.noteAcks()
	}
	return nil
}

// life is one of a daemon. It reads the client's log, where that says of which
// items it does not know the end.
type life struct {
	*crew
	mu      sync.Mutex
	random  *rand.Rand
	done    []end
	refused map[piece]int
	since   time.Time         // it has had nothing before
	workers map[string]string // names, by stage
}

// handle works an item at a whim. What it has got from the first lease of its
// life on is its own until that is over, for sure: how old a later one is, it is
// not told.
func (l *life) handle(ctx context.Context, it client.Item) error {
	p := l.piece(it.Stage, takenItem{ID: it.ID, Filename: it.Filename, Shard: it.Shard})
	worker := l.workers[it.Stage]
	l.notes.began(p, worker, l.since, l.since.Add(l.lease))
	defer l.notes.leaves(p, worker)
	l.mu.Lock()
	whim, long := l.random.IntN(100), time.Duration(l.random.IntN(5000))*time.Millisecond
	l.mu.Unlock()
	if l.honest.Load() {
		whim = 99
	}
	switch {
	case l.doomed(p):
		return client.Permanent(errors.New("poison"))
	case whim < 4:
		return client.After(long/10, errors.New("not now"))
	case whim < 7:
		return client.Permanent(errors.New("somebody has to mend it"))
	case whim < 9:
		return errors.New("in vain")
	case whim < 10:
		panic("a handler that panics")
	case whim < 15:
		wait(ctx, long) // beyond the lease, which is renewed
	}
	l.notes.done(time.Now())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done = append(l.done, end{p, "done", worker})
	return nil
}

// noteAcks notes what is acknowledged.
func (l *life) noteAcks() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.done {
		if l.refused[e.piece] == 0 {
			l.notes.ended(e)
		}
	}
}

// Enabled, Handle, WithAttrs and WithGroup make a life the handler of a log.
func (l *life) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *life) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, "was not taken") {
		return nil
	}
	var it takenItem
	var queue string
	answered := true
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "stage":
			queue = a.Value.String()
		case "filename":
			it.Filename = a.Value.String()
		case "shard":
			it.Shard = int(a.Value.Int64())
		case "item":
			it.ID = a.Value.Int64()
		case "answered":
			answered = a.Value.Bool()
		}
		return true
	})
	p := l.piece(queue, it)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[p]++
	if !answered {
		l.notes.open(p, l.workers[queue])
	}
	return nil
}

func (l *life) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *life) WithGroup(string) slog.Handler      { return l }

// stock is a daemon that knows NATS and nothing else: it pulls, and
// acknowledges.
func (c *crew) stock(ctx context.Context, i int) error {
	random := rand.New(rand.NewPCG(c.seed, 20+uint64(i)))
	nc, err := connect(c.workURL)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		life, die := c.live(ctx)
		c.pull(life, random, nc, js)
		die()
	}
	return nil
}

// pull works some messages of a queue.
func (c *crew) pull(ctx context.Context, random *rand.Rand, nc *nats.Conn, js jetstream.JetStream) {
	queue := c.queues[random.IntN(len(c.queues))]
	attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
	consumer, err := js.Consumer(attempt, stream.Work, queue)
	cancel()
	if err != nil {
		wait(ctx, 200*time.Millisecond)
		return
	}
	batch, err := consumer.Fetch(1+random.IntN(3), jetstream.FetchMaxWait(300*time.Millisecond))
	if err != nil {
		wait(ctx, 200*time.Millisecond)
		return
	}
	for m := range batch.Messages() {
		if ctx.Err() == nil {
			c.acknowledge(ctx, random, nc, queue, m)
		}
	}
}

// acknowledge answers a message at a whim. What is lost of it the server
// makes good.
func (c *crew) acknowledge(ctx context.Context, random *rand.Rand, nc *nats.Conn, stage string, m jetstream.Msg) {
	var it takenItem
	if err := json.Unmarshal(m.Data(), &it); err != nil {
		c.notes.fail("a message of %s is no item: %v", stage, err)
		return
	}
	whim := random.IntN(100)
	if c.honest.Load() {
		whim = 99
	}
	switch {
	case c.doomed(c.piece(stage, it)):
		_ = m.TermWithReason("poison")
	case whim < 4:
	case whim < 8:
		time.AfterFunc(workAckWait+time.Duration(random.IntN(2000))*time.Millisecond, func() { _ = m.Ack() })
	case whim < 11:
		_ = m.TermWithReason("somebody has to mend it")
	case whim < 14:
		_ = m.NakWithDelay(time.Duration(500+random.IntN(1500)) * time.Millisecond)
	case whim < 17:
		_ = m.Nak()
	case whim < 22:
		_ = m.InProgress()
		wait(ctx, time.Duration(random.IntN(300))*time.Millisecond)
		_ = m.Ack()
	case whim < 27: // twice
		_ = m.Ack()
		_ = nc.Publish(m.Reply(), []byte("+ACK"))
	default:
		_ = m.Ack()
	}
}
