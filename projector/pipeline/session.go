package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millrace-io/millrace/projector/fold"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/pipeline/assignment"
	"github.com/millrace-io/millrace/projector/pipeline/funnel"
	"github.com/millrace-io/millrace/projector/pipeline/store"
	"github.com/millrace-io/millrace/schemas/slots"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// grace is how long a projector that is told to stop may take to complete what
// it has begun.
const grace = 8 * time.Second

// leaderLag is how long the stream may seem to end before what has been folded of
// it: a leader that has just been elected may have to catch up. Tests need less.
var leaderLag = 15 * time.Second

// session is one ownership of a slot group. It is the sink of the fold: the
// tables, and the key store beside them.
type session struct {
	p          *Projector
	group      slots.Group
	checkpoint *groupLease
	counted    contract.Known // as the session before has left it
	keys       *keystore.Store
	db         *store.Store
	log        *slog.Logger
	fold       *fold.Fold[*batch]
	opened     chan struct{} // closed when the view is open
	keyFolder  keyFolder
}

// fold folds a group until ctx ends, another projector takes over, or something
// fails. A key store whose damage shows when it is read is replaced like one that
// does not open (invariant 2). Where ClickHouse has other rows than before, it begins
// again with these (invariant 11).
func (p *Projector) fold(ctx context.Context, g slots.Group, lease *assignment.Lease, pulse *fold.Pulse) error {
	defer p.metrics.forget(g)
	defer p.behind.set(g.ID, false)
	for {
		err := p.foldOnce(ctx, g, lease, pulse)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, errRebased):
		case !keystore.IsDamaged(err):
			return err
		default:
			if err := p.keyFolder(g, lease).quarantine(err); err != nil {
				return err
			}
		}
	}
}

func (p *Projector) foldOnce(ctx context.Context, g slots.Group, lease *assignment.Lease, pulse *fold.Pulse) (err error) {
	s := &session{
		p: p, group: g, checkpoint: newGroupLease(lease), counted: lease.Record().View.Known,
		log: p.log.With("group", g.ID), opened: make(chan struct{}), keyFolder: p.keyFolder(g, lease),
	}
	ended := p.unfolded.begin(g)
	defer func() { ended(err) }()
	o := p.cfg.KeyStore
	o.Logger = p.log
	if s.keys, err = keystore.Open(ctx, s.keyFolder.path, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.keys.Close()) }()
	if s.db, err = store.Open(p.ch, p.cfg.Slow, p.log); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	p.unfolded.uses(g, s.keys.Full, s.db.Failing)
	in := fold.NewStream(fold.StreamConfig{
		Stream: stream.Events, Consumer: fmt.Sprintf("projector-%d", g.ID), Subjects: g.Filters(), Skips: p.cfg.StreamSkips,
		Traces: p.cfg.Tracer != nil,
	}, p.nc, p.js, s.log)
	s.fold, err = fold.New(fold.Config{
		Upto: g.Upto, BatchMessages: p.cfg.BatchRows, MinInterval: p.cfg.MinInterval, Lease: p.cfg.Lease, Grace: grace,
		LeaderLag: leaderLag,
	}, fold.Deps{Input: in, Lease: lease, Pulse: pulse, Tracer: p.cfg.Tracer, Log: s.log}, s)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// run folds, and beside the fold answers publishers, sweeps and audits. An audit that finds
// other rows in ClickHouse ends the fold.
func (s *session) run(ctx context.Context) error {
	folding, stopFolding := context.WithCancel(ctx)
	defer stopFolding()
	beside, cancel := context.WithCancel(ctx)
	defer cancel()
	var parts sync.WaitGroup
	once := func(do func()) {
		parts.Go(func() {
			select {
			case <-s.opened:
				do()
			case <-beside.Done():
			}
		})
	}
	once(func() {
		defer s.p.known.add(&entry{group: s.group, keys: s.keys, folded: s.fold.Reached})()
		s.sweep(beside)
	})
	var missing uint64
	var changed bool
	baseline := s.checkpoint.Record().View.Baseline
	once(func() {
		if missing, changed = s.audit(beside, baseline); changed {
			stopFolding()
		}
	})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, s.db.Cut) })()
	err := s.fold.Run(folding)
	cancel()
	s.db.Cut() // an audit is not worth waiting for
	parts.Wait()
	lacks := new(lackError)
	switch {
	case ctx.Err() != nil:
	case changed && errors.Is(err, context.Canceled):
		return s.rebase(ctx, missing)
	case errors.As(err, &lacks) && lacks.missing != baseline.Missing: // and the group stops folding
		return errors.Join(err, s.checkpoint.Rebase(ctx, lacks.missing))
	}
	return err
}

// Stored asks the tables and the key store how far they are.
func (s *session) Stored(ctx context.Context) (fold.Stored, error) {
	var folded store.Folded
	err := s.db.Retry(ctx, "ask what is folded", func(ctx context.Context) (err error) {
		folded, err = s.db.Folded(ctx, s.group)
		return err
	})
	return fold.Stored{
		Upto: folded.Upto, Local: s.keys.Applied(), Known: fold.Known{Seq: folded.Seq, Received: folded.Received},
	}, err
}

// Open brings the key store to a position and opens the funnel.
func (s *session) Open(ctx context.Context, position uint64) (fold.View[*batch], error) {
	if err := s.proveKeys(ctx, position); err != nil {
		return nil, err
	}
	var rows *funnel.View
	err := s.db.Retry(ctx, "open the funnel", func(ctx context.Context) (err error) {
		rows, err = funnel.Open(ctx, funnel.Config{CacheBytes: s.p.cfg.FunnelCacheBytes}, funnelRows{s.db, s.group.ID})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.know(position); err != nil {
		return nil, err
	}
	close(s.opened)
	s.p.unfolded.opened(s.group)
	return &view{
		group: s.group, stages: s.p.cfg.Stages, keys: s.keys, funnel: rows, durable: s.fold.Durable,
		batchRows: s.p.cfg.BatchRows, batchBytes: s.p.cfg.BatchBytes, free: make(chan *batch, batchesKept),
		p: s.p, db: s.db, checkpoint: s.checkpoint, log: s.log,
	}, nil
}

// Failing tells whether the key store's disk is full or ClickHouse fails.
func (s *session) Failing() bool { return s.keys.Full() || s.db.Failing() }

// sweepEvery is the time between two looks at what the group stores.
const sweepEvery = 15 * time.Second

// sweep removes old key stores from quarantine and tells the size of the one in
// use, until ctx ends. That one has been filled, so nothing depends on the
// others.
func (s *session) sweep(ctx context.Context) {
	every := time.NewTicker(sweepEvery)
	defer every.Stop()
	if err := s.keyFolder.forgetUnaccepted(); err != nil {
		s.log.Warn("an older key store stays", "error", err)
	}
	for {
		if err := s.keyFolder.prune(1, time.Now().Add(-quarantineFor).UnixNano()); err != nil {
			s.log.Warn("damaged key stores stay", "error", err)
		}
		s.p.metrics.stored(s.group, s.keys)
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// funnelRows reads funnel rows of one slot group back, for as long as it takes.
type funnelRows struct {
	db    *store.Store
	group uint32
}

func (r funnelRows) Buckets(ctx context.Context, add func(contract.Width, uint32)) error {
	return r.db.Buckets(ctx, r.group, add)
}

func (r funnelRows) Rows(
	ctx context.Context, width contract.Width, buckets []uint32, add func(contract.Key, funnel.Row),
) error {
	var read []*store.Row
	err := r.db.Retry(ctx, "read funnel rows", func(ctx context.Context) error {
		read = read[:0]
		return r.db.Rows(ctx, r.group, width, buckets, func(row *store.Row) { read = append(read, row) })
	})
	if err != nil {
		return err
	}
	for _, row := range read {
		add(row.Key, funnel.Row{Events: row.Events, Articles: row.Articles, Seq: row.Seq})
	}
	return nil
}
