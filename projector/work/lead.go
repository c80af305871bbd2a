package work

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/leader"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// lockKey is the advisory lock of the process that publishes.
const lockKey int64 = 0x6d696c6c_776f726b

// leading does what a leader does until something fails or its term ends. All that
// it has begun has ended when it returns.
func (s *Service) leading(ctx context.Context, term leader.Term) error {
	s.metrics.leading.Set(1)
	defer s.metrics.leading.Set(0)
	t := &session{
		Service: s, blocks: newBlocks(s.store.Pool()), grown: make(chan struct{}, 1), term: term,
	}
	t.plain = t.newAnswers()
	if err := t.refresh(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.connected(ctx) })
	g.Go(func() error { return t.begin(ctx, g) })
	return g.Wait()
}

// begin makes the streams where they are missing, completes what another
// process has decided, and starts everything else in the group.
func (t *session) begin(ctx context.Context, g *errgroup.Group) error {
	if err := t.ensure(ctx); err != nil {
		return err
	}
	r := &relay{session: t, ahead: map[queue.ID]*ahead{}}
	if err := r.sync(ctx); err != nil {
		return errors.Join(err, ctx.Err())
	}
	t.log.Debug("publishing to work queues", "next", r.next)
	for _, run := range []func(context.Context) error{
		r.run, t.answerOffers, t.readAnswers, t.readReports, t.watch, t.mend,
	} {
		g.Go(func() error { return run(ctx) })
	}
	return nil
}

// refresh reads which queues there are, and their switches.
func (t *session) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	all, err := t.store.Queues(ctx)
	if err != nil {
		return err
	}
	for _, v := range all {
		t.names.Store(v.ID, v.Name)
	}
	t.settings.Store(&all)
	return nil
}

// queues are the settings of all queues, as they were read last.
func (t *session) queues() []queue.Settings { return *t.settings.Load() }

// name finds a queue's name. It is empty for a queue that another release has made.
func (t *session) name(q queue.ID) string {
	name, _ := t.names.Load(q)
	s, _ := name.(string)
	return s
}

// ensure makes the streams where they are missing, and a consumer for each queue.
func (t *session) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestWait)
	defer cancel()
	var names []string
	for _, v := range t.queues() {
		names = append(names, v.Name)
	}
	return stream.EnsureWork(ctx, t.js, names, t.cfg.Streams)
}

// connected fails when the connection to NATS is lost: no answer to an earlier
// request comes after that.
func (s *Service) connected(ctx context.Context) error {
	lost := s.nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer s.nc.RemoveStatusListener(lost)
	select {
	case <-lost:
		return nats.ErrDisconnected
	case <-ctx.Done():
		return nil
	}
}
