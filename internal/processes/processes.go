package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millrace-io/millrace/internal/httpapi"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/schemas/stream"
)

const (
	renewEvery = 15 * time.Second // an entry in the bucket
	// answerFor is how long an answer is kept: asking often costs nothing.
	answerFor = time.Second
	// answerWait is how long the others have to answer: longer than a check of a dependency
	// that hangs takes, which a process waits for to say whether it is ready.
	answerWait = 5 * time.Second
)

// Server is what a process says of itself over HTTP, too.
type Server interface {
	Readiness() httpapi.Readiness
	Health() httpapi.Health
}

// Deps are what Processes works with.
type Deps struct {
	NATS    *nats.Conn
	JS      jetstream.JetStream
	Metrics prometheus.Gatherer
	Server  Server
	Log     *slog.Logger
}

// Processes answers for this process, and asks all.
type Processes struct {
	deps Deps
	own  Process

	mu     sync.Mutex
	answer []byte
	at     time.Time // of the answer
}

// New returns what answers for a process with roles, and starts nothing.
func New(version string, roles []string, deps Deps) (*Processes, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("tell of this process: %w", err)
	}
	return &Processes{deps: deps, own: Process{
		ID: nuid.Next(), Host: host, Roles: roles, Version: version, StartedAt: time.Now().UTC(),
	}}, nil
}

// Run answers until ctx ends.
func (p *Processes) Run(ctx context.Context) error {
	service, err := micro.AddService(p.deps.NATS, micro.Config{
		Name: "millrace", Version: "1.0.0", Description: "what each process of Millrace does",
		Metadata: map[string]string{"process": p.own.ID, "version": p.own.Version, "roles": strings.Join(p.own.Roles, ",")},
		// All answer, and not one of them.
		QueueGroupDisabled: true,
		Endpoint:           &micro.EndpointConfig{Subject: stream.Processes, Handler: micro.HandlerFunc(p.respond)},
	})
	if err != nil {
		return fmt.Errorf("answer on %s: %w", stream.Processes, err)
	}
	defer func() { _ = service.Stop() }() // or the connection is closed
	defer p.leave(context.WithoutCancel(ctx))
	return retry.Every(ctx, renewEvery, p.enter, func(err error) {
		p.deps.Log.Debug("the entry of this process is not renewed", "error", err)
	})
}

// enter says that the process is there.
func (p *Processes) enter(ctx context.Context) error {
	entry, err := json.Marshal(p.own)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	kv, err := p.deps.JS.KeyValue(ctx, stream.ProcessBucket)
	if err != nil {
		return err
	}
	_, err = kv.Put(ctx, p.own.ID, entry)
	return err
}

// leave removes the entry: the process has not gone silent, it has stopped. Else the entry expires.
func (p *Processes) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	if kv, err := p.deps.JS.KeyValue(ctx, stream.ProcessBucket); err == nil {
		_ = kv.Purge(ctx, p.own.ID)
	}
}

func (p *Processes) respond(r micro.Request) {
	answer, err := p.report()
	if err == nil {
		err = r.Respond(answer)
	}
	if err != nil {
		p.deps.Log.Debug("a question about this process is not answered", "error", err)
	}
}

// report is what the process does, as of a moment ago.
func (p *Processes) report() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < answerFor {
		return p.answer, nil
	}
	now := p.own
	now.Answers, now.SeenAt = true, time.Now().UTC()
	ready, health := p.deps.Server.Readiness(), p.deps.Server.Health()
	now.Ready, now.Checks = ready.Status == "ready", ready.Checks
	now.Off, now.Warnings, now.Damage = health.Off, health.Warnings, health.Damage
	families, err := p.deps.Metrics.Gather()
	if err != nil {
		p.deps.Log.Debug("some metrics are not told", "error", err)
	}
	all := gauges(families)
	now.Alerts = alerts(all)
	for name, some := range all {
		if slices.ContainsFunc(told, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			now.Gauges = append(now.Gauges, some...)
		}
	}
	answer, err := json.Marshal(now)
	if most := int(p.deps.NATS.MaxPayload()); err == nil && most > 0 && len(answer) > most {
		now.Gauges = nil // of more queues than a message has room for
		answer, err = json.Marshal(now)
	}
	if err == nil {
		p.answer, p.at = answer, time.Now()
	}
	return answer, err
}

// All returns all processes: those that answer, and those whose entries say that they should.
func (p *Processes) All(ctx context.Context) ([]Process, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	found, err := p.entries(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which processes there are: %w", err)
	}
	inbox := p.deps.NATS.NewInbox()
	answers, err := p.deps.NATS.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask the processes: %w", err)
	}
	defer func() { _ = answers.Unsubscribe() }() // or the connection is closed
	if err := p.deps.NATS.PublishRequest(stream.Processes, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask the processes: %w", err)
	}
	for silent := len(found); silent > 0; {
		msg, err := answers.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrNoResponders) || ctx.Err() != nil {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("ask the processes: %w", err)
		}
		var one Process
		if json.Unmarshal(msg.Data, &one) != nil || one.ID == "" {
			continue
		}
		if had, known := found[one.ID]; known && !had.Answers {
			silent--
		}
		found[one.ID] = one
	}
	all := make([]Process, 0, len(found))
	for _, one := range found {
		if one.Answers || !replaced(one, found) {
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Process) int {
		return strings.Compare(strings.Join(a.Roles, ",")+a.Host+a.ID, strings.Join(b.Roles, ",")+b.Host+b.ID)
	})
	return all, nil
}

// replaced tells whether a silent process was started again: one with its roles has begun on its
// host since.
func replaced(silent Process, found map[string]Process) bool {
	for _, other := range found {
		if other.Answers && other.Host == silent.Host && slices.Equal(other.Roles, silent.Roles) &&
			other.StartedAt.After(silent.SeenAt) {
			return true
		}
	}
	return false
}

// entries returns the processes that the bucket knows, by their ids.
func (p *Processes) entries(ctx context.Context) (map[string]Process, error) {
	kv, err := p.deps.JS.KeyValue(ctx, stream.ProcessBucket)
	if err != nil {
		return nil, err
	}
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }()
	found := map[string]Process{}
	for {
		select {
		case entry, open := <-w.Updates():
			if !open || entry == nil {
				return found, nil
			}
			var one Process
			if json.Unmarshal(entry.Value(), &one) == nil && one.ID == entry.Key() {
				one.SeenAt = entry.Created().UTC()
				found[one.ID] = one
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
