package work

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// lockKey is the advisory lock of the process that publishes.
const lockKey int64 = 0x6d696c6c_776f726b

// retryWait is how soon another process takes over, and how soon this one
// tries again after an error.
const retryWait = 200 * time.Millisecond

// silenceWait is how long a process that says nothing stays the leader: one that
// stands still, or whose machine is gone without a word. Postgres ends its
// connection then.
const silenceWait = 5 * time.Second

// errLost is the error of a process that no longer has the lock.
var errLost = errors.New("another process may lead")

// lead makes this process the leader whenever there is no other, until ctx ends.
func (s *Service) lead(ctx context.Context) error {
	failing := false
	for ctx.Err() == nil {
		led, err := s.serve(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			s.log.Warn("work queues wait", "error", err)
		case err != nil:
			s.log.Debug("work queues still wait", "error", err)
		}
		failing = err != nil || failing && !led
		select {
		case <-ctx.Done():
		case <-time.After(retryWait):
		}
	}
	return nil
}

// serve becomes the leader, if there is none, and stays it until something fails.
func (s *Service) serve(ctx context.Context) (led bool, err error) {
	conn, err := s.store.Pool().Acquire(ctx)
	if err != nil {
		return false, fmt.Errorf("become the leader: %w", err)
	}
	defer conn.Release()
	if err := ask(ctx, conn, "SELECT pg_try_advisory_lock($1)", &led); err != nil || !led {
		return false, err
	}
	if err := silenceEnds(ctx, conn); err != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx))
		return false, err
	}
	s.metrics.leading.Set(1)
	defer s.metrics.leading.Set(0)
	// The connection ends with the leadership, and the lock with the connection.
	defer func() { _ = conn.Conn().Close(context.WithoutCancel(ctx)) }()
	return true, s.leading(ctx, conn)
}

// silenceEnds has Postgres end a connection that is not used for a while.
func silenceEnds(ctx context.Context, conn *pgxpool.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	_, err := conn.Exec(ctx, "SELECT set_config('idle_session_timeout', $1, false)", strconv.FormatInt(silenceWait.Milliseconds(), 10))
	if err != nil {
		return fmt.Errorf("become the leader: %w", err)
	}
	return nil
}

func ask(ctx context.Context, conn *pgxpool.Conn, sql string, into *bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	if err := conn.QueryRow(ctx, sql, lockKey).Scan(into); err != nil {
		return fmt.Errorf("become the leader: %w", err)
	}
	return nil
}

// leading does what a leader does until something fails. All that it has begun has
// ended when it returns, before which the connection is in use.
func (s *Service) leading(ctx context.Context, conn *pgxpool.Conn) error {
	t := &session{
		Service: s, blocks: newBlocks(s.store.Pool()), grown: make(chan struct{}, 1), backend: conn.Conn().PgConn().PID(),
		answers: position{whole: true},
	}
	t.plain = t.newAnswers()
	if err := t.refresh(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return holds(ctx, conn) })
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
	for _, run := range []func(context.Context) error{r.run, t.readAnswers, t.readReports, t.watch, t.mend} {
		g.Go(func() error { return run(ctx) })
	}
	return nil
}

// refresh reads which queues there are, and their switches.
func (t *session) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	all, err := t.store.Queues(ctx)
	if err == nil {
		t.settings.Store(&all)
	}
	return err
}

// queues are the settings of all queues, as they were read last.
func (t *session) queues() []queue.Settings { return *t.settings.Load() }

// name finds a queue's name; one of another release has none here.
func (t *session) name(q queue.ID) string {
	for _, v := range t.queues() {
		if v.ID == q {
			return v.Name
		}
	}
	return ""
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

// holds watches the connection that the lock is bound to.
func holds(ctx context.Context, conn *pgxpool.Conn) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
		held := false
		const mine = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND granted AND (classid::bigint << 32 | objid::bigint) = $1)"
		if err := ask(ctx, conn, mine, &held); err != nil || !held {
			if ctx.Err() != nil {
				return nil
			}
			return errors.Join(errLost, err)
		}
	}
}

// connected fails when the connection to NATS is lost: what has been asked on
// it before is not answered after.
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
