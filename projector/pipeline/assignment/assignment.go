// Package assignment decides which projector folds which slot groups. Each group
// has one owner, by its checkpoint. Projectors that know of each other (package
// members) hold about as many groups each, and they carry out a change of the
// number of groups together.
package assignment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/retry"
	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/schemas/slots"
)

// Config of an Assignment. All fields are required.
type Config struct {
	// Lease is how long a silent owner keeps its groups, the same for all
	// processes.
	Lease time.Duration
	// Fold folds a group, whose lease this process has just taken, until ctx ends,
	// the lease is lost, something fails, or the group has ended; then it returns
	// nil.
	Fold func(ctx context.Context, g slots.Group, lease *Lease, pulse *fold.Pulse) error
	// Forget removes what this process has stored for groups with smaller ids, which
	// have ended.
	Forget func(first uint32)
}

// Assignment is the slot groups that this process folds.
type Assignment struct {
	cfg     Config
	nc      *nats.Conn
	log     *slog.Logger
	damages damages
}

// New returns an assignment and starts nothing.
func New(cfg Config, nc *nats.Conn, log *slog.Logger) *Assignment {
	return &Assignment{cfg: cfg, nc: nc, log: log}
}

// Damage returns an error that names the positions in the bucket that cannot be
// read, or nil. It may be called at any time.
func (a *Assignment) Damage() error { return a.damages.all() }

// Run folds a fair share of the groups until ctx ends or a group fails for good.
// It returns after all that it has started has ended. owner names this process,
// the same after a restart.
func (a *Assignment) Run(ctx context.Context, kv jetstream.KeyValue, owner string) error {
	return newShare(a, kv, owner).run(ctx)
}

// share is what one run of an Assignment holds. One goroutine uses it.
type share struct {
	a        *Assignment
	kv       jetstream.KeyValue
	owner    string
	register *Register

	// What is known of the layout, and of a change that is under way.
	open  []slots.Group // those that may be folded at present
	after int           // epochs that are known to have ended
	asked time.Time     // when this process first heard of the change under way

	workers map[uint32]*worker // by the id of the group
	giving  bool               // a worker has been told to give its group up
	others  []Member
	beaten  time.Time // when the others were last heard
	told    bool      // the others know of this process
	unfit   time.Time // until when it does not count among them
	watched map[uint32]*watch
	ended   chan *worker
	work    context.Context // of the workers
	rounds  *retry.Loop
}

// worker folds one group.
type worker struct {
	group   slots.Group
	pulse   *fold.Pulse
	began   time.Time
	cancel  context.CancelFunc
	dropped bool  // the layout no longer has the group as it was
	err     error // of its end
}

// watch is what is known of a group that this process does not own.
type watch struct {
	revision uint64
	since    time.Time     // when the revision was first seen
	retryAt  time.Time     // when this process may take the group
	wait     time.Duration // after the next failure
	loop     *retry.Loop   // of the sessions of its workers
}

// patience bounds one round of requests to the broker.
const patience = 2 * time.Second

func newShare(a *Assignment, kv jetstream.KeyValue, owner string) *share {
	return &share{
		a: a, kv: kv, owner: owner, register: NewRegister(kv, owner, a.cfg.Lease),
		workers: map[uint32]*worker{}, watched: map[uint32]*watch{}, ended: make(chan *worker),
	}
}

func (s *share) run(ctx context.Context) error {
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.leave(ctx)
	s.work, s.rounds = work, retry.NewLoop(ctx)
	defer s.rounds.End()
	defer func() {
		for _, w := range s.watched {
			w.loop.End()
		}
	}()
	tick := time.NewTicker(s.a.cfg.Lease / 20)
	defer tick.Stop()
	var err error
	for err == nil {
		if err = s.round(work); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case w := <-s.ended:
			err = s.reap(ctx, w)
		case <-tick.C:
		}
	}
	cancel()
	for len(s.workers) > 0 {
		w := <-s.ended
		delete(s.workers, w.group.ID)
		if ctx.Err() != nil && !errors.Is(w.err, ctx.Err()) {
			err = errors.Join(err, w.err)
		}
	}
	return err
}

// leave tells the others that this process is gone, so that they share its groups at
// once, and not after a lease.
func (s *share) leave(ctx context.Context) {
	if !s.told || !s.a.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := s.register.Leave(ctx); err != nil {
		s.a.log.Debug("the others are not told", "error", err)
	}
}

// round takes groups without an owner, or gives one up, so that all processes hold
// about as many. The next round tries again what has failed. The error is one that
// trying again would not mend.
func (s *share) round(ctx context.Context) error {
	err := s.within(ctx, 5*patience, s.look)
	if err == nil {
		err = s.within(ctx, patience, s.balance)
	}
	if errors.Is(err, ErrUnknownLayout) {
		return err
	}
	switch {
	case err == nil:
		s.rounds.Well()
	case s.a.nc.IsConnected() && ctx.Err() == nil: // else the connection's owner is told
		s.rounds.Failed(err)
		s.a.log.Debug("slot groups are not shared", "error", err)
	}
	return nil
}

func (s *share) within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// balance takes groups, or gives one up, so that all processes hold about as
// many.
func (s *share) balance(ctx context.Context) error {
	if !s.fit() {
		return nil
	}
	groups := len(s.open)
	if groups > 1 && time.Since(s.beaten) > s.a.cfg.Lease/3 {
		others, err := s.register.Beat(ctx, len(s.workers))
		if err != nil {
			return err
		}
		s.others, s.beaten, s.told = others, time.Now(), true
	}
	if _, give := Share(groups, len(s.workers), s.others); give {
		s.give()
		return nil
	}
	for _, g := range s.open {
		if take, _ := Share(groups, len(s.workers), s.others); !take {
			return nil
		}
		if s.workers[g.ID] != nil {
			continue
		}
		if err := s.take(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// fit tells whether this process can fold what it has. A process that cannot does
// not count among the others, who take what it leaves, until a lease has passed since
// its last silence. By then it has heard again of others that could not fold either.
func (s *share) fit() bool {
	for _, w := range s.workers {
		if w.pulse.Silent(s.a.cfg.Lease) {
			s.unfit = time.Now().Add(s.a.cfg.Lease)
		}
	}
	return time.Now().After(s.unfit)
}

// give tells one worker to complete what it has begun and to release its group.
func (s *share) give() {
	if s.giving {
		return
	}
	var last *worker
	for _, w := range s.workers {
		if last == nil || w.group.ID > last.group.ID {
			last = w
		}
	}
	s.giving = true
	s.a.log.Info("giving a slot group up to another projector", "group", last.group.ID)
	last.cancel()
}

// start runs a worker.
func (s *share) start(g slots.Group, lease *Lease) {
	work, cancel := context.WithCancel(s.work)
	w := &worker{group: g, pulse: fold.NewPulse(), began: time.Now(), cancel: cancel}
	s.workers[g.ID] = w
	go func() {
		defer cancel()
		w.err = s.a.cfg.Fold(work, g, lease, w.pulse)
		s.ended <- w
	}()
}

// reap takes note of a worker's end. It returns an error if starting again would not
// mend it.
func (s *share) reap(ctx context.Context, w *worker) error {
	delete(s.workers, w.group.ID)
	s.giving, s.beaten = false, time.Time{}
	watch := s.watch(w.group)
	watch.since = time.Time{}
	var fatal *fold.Stop
	switch {
	case ctx.Err() != nil:
		return w.err
	case w.err == nil: // its epoch has ended
		return nil
	case errors.As(w.err, &fatal):
		return fmt.Errorf("slot group %d: %w", w.group.ID, w.err)
	case errors.Is(w.err, fold.ErrLost):
		s.a.log.Warn("standing by", "group", w.group.ID, "reason", w.err)
		return nil
	case w.dropped:
		return nil
	case errors.Is(w.err, context.Canceled): // given up
		watch.retryAt = time.Now().Add(s.a.cfg.Lease / 2)
		return nil
	}
	if !s.a.nc.IsConnected() || time.Since(w.began) > time.Minute {
		watch.wait = 0
	}
	watch.wait = min(max(2*watch.wait, time.Second), 30*time.Second)
	watch.retryAt = time.Now().Add(watch.wait)
	s.unfit = watch.retryAt
	if s.a.nc.IsConnected() { // else the connection's owner is told
		watch.loop.SessionFailed(w.err, watch.wait)
		s.a.log.Error("projector failed, starting again from what is durable", "group", w.group.ID, "error", w.err,
			"retry_in", watch.wait)
	}
	return nil
}
