package projector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/layout"
	"github.com/millrace-io/millrace/projector/members"
	"github.com/millrace-io/millrace/schemas/slots"
)

// crew is the slot groups that a projector owns, each folded by a worker, and
// the watch over those that it may take.
type crew struct {
	*Projector
	kv       jetstream.KeyValue
	owner    string
	register *members.Register
	regroup

	workers map[uint32]*worker // by the id of the group
	giving  bool               // a worker has been told to give its group up
	others  []members.Member
	beaten  time.Time // when the others were last heard
	told    bool      // the others know of this projector
	unfit   time.Time // until when it does not count among them
	watched map[uint32]*watch
	ended   chan *worker
	work    context.Context // of the workers
}

// worker folds one group.
type worker struct {
	*group
	began  time.Time
	cancel context.CancelFunc
	// dropped says that its group is not to be folded as it was.
	dropped bool
	err     error // of its end
}

// silent tells whether the worker has said nothing for a lease: it can't write,
// or has been at the same for too long.
func (w *worker) silent(lease time.Duration) bool {
	last := &w.began
	if signed := w.signed.Load(); signed != nil {
		last = signed
	}
	return time.Since(*last) > lease
}

// watch is what is known of a group that this process does not own.
type watch struct {
	revision uint64
	since    time.Time     // when the revision was first seen
	not      time.Time     // before which the group is not to be taken
	wait     time.Duration // after the next failure
}

// patience bounds one round of requests to the broker.
const patience = 2 * time.Second

func newCrew(p *Projector, kv jetstream.KeyValue, owner string) *crew {
	return &crew{
		Projector: p, kv: kv, owner: owner, register: members.New(kv, owner, p.cfg.Lease),
		workers: map[uint32]*worker{}, watched: map[uint32]*watch{}, ended: make(chan *worker),
	}
}

// run owns a fair share of the groups until ctx ends or a worker fails for
// good. It returns after all workers have ended.
func (c *crew) run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.leave(ctx)
	c.work = work
	tick := time.NewTicker(c.cfg.Lease / 20)
	defer tick.Stop()
	var err error
	for err == nil {
		if err = c.round(work); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case w := <-c.ended:
			err = c.reap(ctx, w)
		case <-tick.C:
		}
	}
	cancel()
	for len(c.workers) > 0 {
		w := <-c.ended
		delete(c.workers, w.ID)
		if ctx.Err() != nil && !errors.Is(w.err, ctx.Err()) {
			err = errors.Join(err, w.err)
		}
	}
	return err
}

// leave lets the others share without this projector at once; without it they
// do after a lease.
func (c *crew) leave(ctx context.Context) {
	if !c.told || !c.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := c.register.Leave(ctx); err != nil {
		c.log.Debug("the others are not told", "error", err)
	}
}

// round takes groups without an owner, or gives one up, as the others let it.
// What fails is tried in the next round, but for what starting again would not
// mend.
func (c *crew) round(ctx context.Context) error {
	err := c.within(ctx, 5*patience, c.look)
	if err == nil {
		err = c.within(ctx, patience, c.share)
	}
	if errors.Is(err, layout.ErrUnknown) {
		return err
	}
	if err != nil && c.nc.IsConnected() {
		c.log.Debug("slot groups are not shared", "error", err)
	}
	return nil
}

func (c *crew) within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

func (c *crew) share(ctx context.Context) error {
	if !c.fit() {
		return nil
	}
	groups := len(c.open)
	if groups > 1 && time.Since(c.beaten) > c.cfg.Lease/3 {
		others, err := c.register.Beat(ctx, len(c.workers))
		if err != nil {
			return err
		}
		c.others, c.beaten, c.told = others, time.Now(), true
	}
	if _, give := members.Share(groups, len(c.workers), c.others); give {
		c.give()
		return nil
	}
	for _, g := range c.open {
		if take, _ := members.Share(groups, len(c.workers), c.others); !take {
			return nil
		}
		if c.workers[g.ID] != nil {
			continue
		}
		if err := c.take(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// fit tells whether this projector can fold what it has. One that can't does
// not count among the others, who take what it leaves, until a lease has passed
// after the last silence: by then those are heard again who could not work
// either.
func (c *crew) fit() bool {
	for _, w := range c.workers {
		if w.silent(c.cfg.Lease) {
			c.unfit = time.Now().Add(c.cfg.Lease)
		}
	}
	return time.Now().After(c.unfit)
}

// give tells one worker to complete what it has begun and to release its
// group.
func (c *crew) give() {
	if c.giving {
		return
	}
	var last *worker
	for _, w := range c.workers {
		if last == nil || w.ID > last.ID {
			last = w
		}
	}
	c.giving = true
	c.log.Info("giving a slot group up to another projector", "group", last.ID)
	last.cancel()
}

// take becomes the owner of a group that has none, and starts a worker.
func (c *crew) take(ctx context.Context, g slots.Group) error {
	w := c.watch(g)
	if time.Now().Before(w.not) {
		return nil
	}
	log, err := checkpoint.Open(ctx, c.kv, g.Key(), c.owner, g.After)
	if err != nil {
		return err
	}
	if log.Record().Closing && g.Upto == 0 { // the layout has changed just now
		return nil
	}
	if c.held(g, log) {
		return nil
	}
	if err := log.Take(ctx); err != nil {
		return err
	}
	c.beaten = time.Time{}
	c.start(g, log)
	return nil
}

// held tells whether another projector owns a group and is alive.
func (c *crew) held(g slots.Group, log *checkpoint.Log) bool {
	w := c.watch(g)
	if log.Revision() != w.revision || w.since.IsZero() {
		w.revision, w.since = log.Revision(), time.Now()
	}
	owner := log.Record().Owner
	return owner != "" && owner != c.owner && time.Since(w.since) <= c.cfg.Lease
}

func (c *crew) watch(g slots.Group) *watch {
	w := c.watched[g.ID]
	if w == nil {
		w = new(watch)
		c.watched[g.ID] = w
	}
	return w
}

// start runs a worker.
func (c *crew) start(g slots.Group, log *checkpoint.Log) {
	work, cancel := context.WithCancel(c.work)
	w := &worker{group: &group{Projector: c.Projector, Group: g}, began: time.Now(), cancel: cancel}
	c.workers[g.ID] = w
	go func() {
		defer cancel()
		w.err = w.fold(work, log)
		c.ended <- w
	}()
}

// reap takes note of a worker's end. It returns the error that starting again
// would not mend.
func (c *crew) reap(ctx context.Context, w *worker) error {
	delete(c.workers, w.ID)
	c.metrics.forget(w.Group)
	c.giving, c.beaten = false, time.Time{}
	watch := c.watch(w.Group)
	watch.since = time.Time{}
	var fatal stopError
	switch {
	case ctx.Err() != nil:
		return w.err
	case w.err == nil: // its epoch has ended
		return nil
	case errors.As(w.err, &fatal):
		return fmt.Errorf("slot group %d: %w", w.ID, w.err)
	case errors.Is(w.err, checkpoint.ErrLost):
		c.log.Warn("standing by", "group", w.ID, "reason", w.err)
		return nil
	case w.dropped:
		return nil
	case errors.Is(w.err, context.Canceled): // given up
		watch.not = time.Now().Add(c.cfg.Lease / 2)
		return nil
	}
	if !c.nc.IsConnected() || time.Since(w.began) > time.Minute {
		watch.wait = 0
	}
	watch.wait = min(max(2*watch.wait, time.Second), 30*time.Second)
	watch.not = time.Now().Add(watch.wait)
	c.unfit = watch.not
	if c.nc.IsConnected() { // else the connection's owner is told
		c.log.Error("projector failed, starting again from what is durable", "group", w.ID, "error", w.err, "retry_in", watch.wait)
	}
	return nil
}
