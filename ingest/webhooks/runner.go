package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/internal/userqueue"
)

// RunnerConfig shapes a runner. The zero value of a field stands for its default.
type RunnerConfig struct {
	// AtOnce is how many requests the process sends at a time, to all webhooks together; default 256.
	AtOnce int
	// PerHost is how many requests the process sends at a time to one host; default 64.
	PerHost int
	// Margin is for how long the lease of an item outlasts the time of its request; default 30 s.
	Margin time.Duration
	// Grace is how long requests may take to end when the runner does; default 3 s.
	Grace time.Duration
}

// Deps are what a runner works with. All of them are needed, and it closes none.
type Deps struct {
	Sender   *Sender
	Store    *Store
	Own      *userqueue.Store
	Hands    *handout.Handout
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Runner sends the items of queues to their webhooks. Any number of processes may run one on the same database.
type Runner struct {
	Deps
	cfg      RunnerConfig
	reports  *userqueue.Reports
	room     *semaphore.Weighted
	requests *prometheus.CounterVec
	worker   string

	paces     map[string]*Pace     // by host
	followers map[string]*follower // by queue
}

// follower is a queue whose items are sent.
type follower struct {
	webhook Webhook
	stop    context.CancelFunc
	ended   chan struct{}
}

// NewRunner checks what it is given, and starts nothing.
func NewRunner(cfg RunnerConfig, deps Deps) (*Runner, error) {
	if deps.Sender == nil || deps.Store == nil || deps.Registry == nil || deps.Log == nil {
		return nil, errors.New("webhooks: a sender, the webhooks, a registry and a logger are needed")
	}
	reports, err := userqueue.NewReports(deps.Own, deps.Hands)
	if err != nil {
		return nil, fmt.Errorf("webhooks: %w", err)
	}
	cfg.AtOnce, cfg.Margin = cmp.Or(cfg.AtOnce, 256), cmp.Or(cfg.Margin, 30*time.Second)
	cfg.Grace, cfg.PerHost = cmp.Or(cfg.Grace, 3*time.Second), cmp.Or(cfg.PerHost, MaxConcurrency)
	if cfg.AtOnce < 1 || cfg.PerHost < 1 || cfg.Margin < 0 || cfg.Grace < 0 {
		return nil, errors.New("webhooks: want at least one request at a time, and no negative times")
	}
	deps.Log = deps.Log.With("component", "webhooks")
	r := &Runner{
		Deps: deps, cfg: cfg, reports: reports, room: semaphore.NewWeighted(int64(cfg.AtOnce)), worker: "webhook",
		paces: map[string]*Pace{}, followers: map[string]*follower{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "millrace_webhook_requests_total", Help: "Requests to webhooks, by queue and by what the answer means.",
		}, []string{"queue", "answer"}),
	}
	if host, err := os.Hostname(); err == nil {
		r.worker += " on " + host
	}
	return r, deps.Registry.Register(r.requests)
}

// lookEvery is how often webhooks are looked for, and hosts that have asked to be sent nothing.
const lookEvery = time.Second

// Run sends items until ctx ends. While the database is away it tries again.
func (r *Runner) Run(ctx context.Context) error {
	defer r.Sender.Close()
	defer r.stopAll()
	return retry.Every(ctx, lookEvery, r.look, func(err error) {
		r.Log.Warn("webhooks cannot be looked for now", "error", err)
	})
}

// look has the items of queues with webhooks sent, and of no others.
func (r *Runner) look(ctx context.Context) error {
	all, err := r.Store.All(ctx)
	if err != nil {
		return err
	}
	held, err := r.Store.Deferred(ctx)
	if err != nil {
		return err
	}
	for host, wait := range held {
		r.pace(host).Hold(wait, time.Now())
	}
	wanted := map[string]Webhook{}
	hosts := map[string]bool{}
	for _, w := range all {
		wanted[w.Queue] = w
		hosts[w.Host()] = true
	}
	r.stop(func(name string, of *follower) bool { return !reflect.DeepEqual(wanted[name], of.webhook) })
	for host := range r.paces {
		if !hosts[host] {
			delete(r.paces, host)
		}
	}
	for name, w := range wanted {
		if r.followers[name] == nil {
			r.follow(ctx, name, w)
		}
	}
	return nil
}

// follow has the items of a queue sent.
func (r *Runner) follow(ctx context.Context, name string, w Webhook) {
	running, stop := context.WithCancel(ctx)
	of := &follower{w, stop, make(chan struct{})}
	r.followers[name] = of
	d := newDispatch(r, w, r.pace(w.Host()))
	go func() {
		defer close(of.ended)
		d.run(running)
	}()
}

// pace returns that of a host. It is for the goroutine of Run.
func (r *Runner) pace(host string) *Pace {
	if r.paces[host] == nil {
		r.paces[host] = NewPace(r.cfg.PerHost, r.Own.Pacing())
	}
	return r.paces[host]
}

// stop ends some followers, and waits until they have ended.
func (r *Runner) stop(which func(string, *follower) bool) {
	var all sync.WaitGroup
	for name, of := range r.followers {
		if !which(name, of) {
			continue
		}
		delete(r.followers, name)
		of.stop()
		all.Go(func() { <-of.ended })
	}
	all.Wait()
}

func (r *Runner) stopAll() { r.stop(func(string, *follower) bool { return true }) }
