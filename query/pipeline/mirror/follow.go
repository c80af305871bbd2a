package mirror

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/funnel"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"
)

// checkEvery is how often Run looks for lost messages and for what has become
// too old.
const checkEvery = 250 * time.Millisecond

// Run loads the funnel and follows the projectors until ctx ends. A database
// that is not there does not end it: it tries again, and Err tells meanwhile.
// A mirror runs once, unless it cannot subscribe.
func (m *Mirror) Run(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)
	sub, err := m.subscribe(nc)
	if err != nil {
		return err
	}
	defer m.stop()
	defer context.AfterFunc(ctx, m.cancel)()
	defer func() { _ = sub.Unsubscribe() }()
	if !m.subscribed(ctx, nc) {
		return nil
	}

	m.loads.Go(func() { m.watchCheckpoints(m.ctx, js) })
	select {
	case <-m.heard:
	case <-ctx.Done():
		return nil
	}
	m.Missed()
	m.follow(ctx, nc, sub, status)
	return nil
}

func (m *Mirror) subscribe(nc *nats.Conn) (*nats.Subscription, error) {
	sub, err := nc.Subscribe(stream.FunnelDeltas, func(msg *nats.Msg) {
		defer m.trace(msg)()
		m.verifier.hear(msg.Data)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to %s: %w", stream.FunnelDeltas, err)
	}
	return sub, nil
}

// trace begins the span of an announcement that is traced, and returns how to end it.
func (m *Mirror) trace(msg *nats.Msg) (end func()) {
	traced := msg.Header.Get(stream.TraceParent)
	if m.cfg.Tracer == nil || traced == "" {
		return func() {}
	}
	_, span := m.cfg.Tracer.Start(stream.WithTrace(m.ctx, traced), "receive "+stream.FunnelDeltas,
		trace.WithSpanKind(trace.SpanKindConsumer))
	return func() { span.End() }
}

// subscribed waits until the server knows of the subscription, as it has to
// before a load begins (invariant 1). It returns false when ctx ends.
func (m *Mirror) subscribed(ctx context.Context, nc *nats.Conn) bool {
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for pause := (backoff{}); ctx.Err() == nil; pause.wait(ctx) {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := nc.FlushWithContext(attempt)
		cancel()
		if err == nil {
			return true
		}
		loop.Failed(err)
		m.log.Debug(
			"NATS has not confirmed the subscription; trying again", "subject", stream.FunnelDeltas, "error", err,
		)
	}
	return false
}

func (m *Mirror) follow(ctx context.Context, nc *nats.Conn, sub *nats.Subscription, reconnected <-chan nats.Status) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	var dropped int
	pause := backoff{}
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
			if err := m.reloadIfWanted(); err != nil && ctx.Err() == nil {
				if loop.Failed(err) {
					m.log.Warn("the funnel cannot be loaded; trying again", "error", err)
				}
				pause.wait(ctx)
			} else {
				loop.Well()
				pause = backoff{}
			}
		case <-reconnected:
			if m.subscribed(ctx, nc) {
				m.Missed()
			}
		case <-tick.C:
			if n, err := sub.Dropped(); err == nil && n > dropped {
				dropped = n
				m.Missed()
			}
			m.verifier.expire()
			m.check()
		}
	}
}

// check looks for a lost delta and keeps the bounds.
func (m *Mirror) check() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pos.ahead(m.cfg.Now()) && !m.want {
		m.log.Warn("the funnel is ahead of the projectors' checkpoints: loading again")
		m.pos.retreat()
		m.requestReload()
	}
	if m.pos.lost(m.cfg.Now()) && !m.want {
		m.log.Info("projectors are ahead of the last funnel delta: loading again")
		m.requestReload()
	}
	if m.state != nil {
		m.tend(m.state)
	}
}

// watchCheckpoints follows the projectors' checkpoints. It closes heard when it has
// the present ones, or there are none yet.
func (m *Mirror) watchCheckpoints(ctx context.Context, js jetstream.JetStream) {
	begun := sync.OnceFunc(func() { close(m.heard) })
	pause := backoff{}
	loop := retry.NewLoop(ctx)
	defer loop.End()
	for ctx.Err() == nil {
		err := m.watchOnce(ctx, js, func() {
			begun()
			loop.Well()
			pause = backoff{}
		})
		if ctx.Err() != nil {
			return
		}
		loop.Failed(err)
		m.log.Debug("checkpoints cannot be watched; trying again", "error", err)
		m.fail(err)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			begun() // nothing has been decided yet
		}
		pause.wait(ctx)
	}
}

// fail notes why there is no state yet.
func (m *Mirror) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil {
		m.err = err
	}
}

// valuesWait is how long the present checkpoints may take to come.
const valuesWait = 10 * time.Second

// watchOnce calls begun when the present checkpoints are through. Where the server skips a
// damaged one, it does not say so: after a time that is an error.
func (m *Mirror) watchOnce(ctx context.Context, js jetstream.JetStream, begun func()) error {
	open, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	kv, err := js.KeyValue(open, stream.Checkpoints)
	if err != nil {
		return fmt.Errorf("open bucket %s: %w", stream.Checkpoints, err)
	}
	// A watch whose connection was lost finds out by missing heartbeats, some
	// twenty seconds after the connection is back: this one begins anew at once.
	lost := js.Conn().StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer js.Conn().RemoveStatusListener(lost)
	w, err := kv.WatchFiltered(ctx, []string{slots.Key, slots.Keys})
	if err != nil {
		return fmt.Errorf("watch bucket %s: %w", stream.Checkpoints, err)
	}
	defer func() { _ = w.Stop() }()
	late := time.After(valuesWait)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-late:
			return fmt.Errorf("read the bucket %s: its values come to no end within %s: one is damaged, or NATS is too slow",
				stream.Checkpoints, valuesWait)
		case <-lost:
			return fmt.Errorf("watch bucket %s: %w", stream.Checkpoints, nats.ErrDisconnected)
		case entry, open := <-w.Updates():
			if !open {
				return fmt.Errorf("watch bucket %s: ended", stream.Checkpoints)
			}
			if entry == nil {
				begun()
				late = nil
				continue
			}
			m.hear(entry)
		}
	}
}

// hear takes a value of the bucket.
func (m *Mirror) hear(entry jetstream.KeyValueEntry) {
	if entry.Key() != slots.Key {
		m.hearCheckpoint(entry)
		return
	}
	l, err := slots.Parse(entry.Value())
	if err != nil {
		m.log.Error(
			"the slot groups cannot be read: a newer millrace has changed them, and this one tells wrong positions",
			"error", err,
		)
		return
	}
	m.Arrange(l)
}

// hearCheckpoint takes the checkpoint of a slot group.
func (m *Mirror) hearCheckpoint(entry jetstream.KeyValueEntry) {
	group, known := slots.ParseKey(entry.Key())
	if !known {
		return // the key of something that this program does not know
	}
	c, err := funnel.ParseCheckpoint(entry.Value())
	if entry.Operation() != jetstream.KeyValuePut {
		err = errors.New("it was deleted")
	}
	m.noteDamage(group, err)
	if err != nil {
		return
	}
	m.Checkpoint(Checkpoint{
		Group: group, Durable: c.From, Decided: c.To, CaughtUp: c.CaughtUp, Baseline: c.View.Baseline,
	})
	if c.To > c.From { // after its baseline is known
		m.verifier.decide(decision{bounds{group, c.From, c.To}, c.Digest, c.View.Baseline.Number})
	}
}

// noteDamage takes note of what stands in the place of a checkpoint, nil for
// one.
func (m *Mirror) noteDamage(group uint32, damage error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if damage == nil {
		delete(m.damage, group)
		return
	}
	m.log.Error(
		"the checkpoint of a slot group was overwritten; its projector puts it back", "group", group, "error", damage,
	)
	m.damage[group] = damage
}

// Damage tells of checkpoints that cannot be read, nil when all can.
func (m *Mirror) Damage() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for group, err := range m.damage {
		errs = append(errs, fmt.Errorf("checkpoint of slot group %d: %w", group, err))
	}
	return errors.Join(errs...)
}

// backoff waits longer each time, from 100 ms to 5 s.
type backoff struct{ last time.Duration }

func (b *backoff) wait(ctx context.Context) {
	b.last = min(max(2*b.last, 100*time.Millisecond), 5*time.Second)
	select {
	case <-time.After(b.last):
	case <-ctx.Done():
	}
}
