package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/millrace-io/millrace/projector/checkpoint"
	"github.com/millrace-io/millrace/projector/funnel"
	"github.com/millrace-io/millrace/projector/keystore"
	"github.com/millrace-io/millrace/projector/source"
	"github.com/millrace-io/millrace/projector/store"
	"github.com/millrace-io/millrace/schemas/event"
	"github.com/millrace-io/millrace/schemas/stream"

	contract "github.com/millrace-io/millrace/schemas/funnel"
)

// grace is how long a projector that is told to stop may take to complete
// what it has begun.
const grace = 8 * time.Second

// maxQuarters bounds the quarters that one batch touches, and so the funnel
// rows it holds in memory, when a backfill comes in no order of time.
const maxQuarters = 1000

// term is one ownership of a slot group, from taking it to losing it.
//
// Three goroutines form a pipeline: the source reads ahead, the folder turns
// messages into batches, the flusher makes one batch after the other durable.
// While a batch is being flushed the next one grows, so that batches are small
// when messages trickle and large when there is a backlog.
type term struct {
	*group
	decisions *checkpoint.Log
	keys      *keystore.Store
	db        *store.Store
	log       *slog.Logger
	src       *source.Source
	folder    folder
	began     time.Time
	durable   atomic.Uint64
	whole     uint64       // with this message the batch that is recovered is whole
	last      uint64       // the last message of a group that ends
	took      atomic.Int64 // the time in which the last batch became durable
	late      lateness     // not yet reported
	lateTold  time.Time    // when late events were last reported

	sealed chan *batch   // from folder to flusher
	idle   chan struct{} // the flusher waits for a batch
	free   chan *batch   // batches to use again
}

// lead folds until ctx ends or another projector takes over.
func (g *group) lead(ctx context.Context, decisions *checkpoint.Log, keys *keystore.Store, db *store.Store) error {
	t := &term{
		group: g, decisions: decisions, keys: keys, db: db, log: g.log.With("group", g.ID), began: time.Now(),
		sealed: make(chan *batch), idle: make(chan struct{}, 1), free: make(chan *batch, 3),
	}
	for range cap(t.free) {
		t.free <- newBatch(g.cfg.Stages.Names())
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	defer t.src.Close()
	t.log.Info("folding", "position", t.durable.Load())

	// What has been begun is completed after ctx has ended, within the grace.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()

	parts, gctx := errgroup.WithContext(work)
	stop, stopReading := context.WithCancel(gctx)
	defer context.AfterFunc(ctx, stopReading)()
	chunks := make(chan []source.Message)
	parts.Go(func() error { defer close(chunks); return t.read(stop, chunks) })
	parts.Go(func() error { defer close(t.sealed); defer stopReading(); return t.fold(gctx, chunks) })
	parts.Go(func() error { return t.flush(gctx) })
	parts.Go(func() error { t.sweep(stop); return nil })
	err := parts.Wait()
	if err == nil {
		err = decisions.Release(work)
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// prepare brings key store and funnel to the decided position and opens the
// source behind it.
func (t *term) prepare(ctx context.Context) error {
	var folded store.Folded
	err := t.alive(ctx, func(ctx context.Context) error {
		return t.db.Retry(ctx, "ask what is folded", func(ctx context.Context) (err error) {
			folded, err = t.db.Folded(ctx, t.Group)
			return err
		})
	})
	if err != nil {
		return err
	}
	from, to, err := t.recoverable(ctx, folded)
	if err != nil {
		return err
	}
	t.durable.Store(from)
	var view *funnel.View
	err = t.alive(ctx, func(ctx context.Context) error {
		if err := t.fillKeys(ctx, from); err != nil {
			return err
		}
		return t.db.Retry(ctx, "open the funnel", func(ctx context.Context) (err error) {
			view, err = funnel.Open(ctx, funnel.Config{CacheBytes: t.cfg.FunnelCacheBytes}, rows{t.db, t.ID})
			return err
		})
	})
	if err != nil {
		return err
	}
	t.folder = folder{
		group: t.Group, stages: t.cfg.Stages, keys: t.keys, view: view, durable: t.durable.Load, position: from,
	}
	t.src = source.New(source.Config{
		Stream: stream.Events, Consumer: fmt.Sprintf("projector-%d", t.ID), Subjects: t.Filters(),
	}, t.nc, t.js, from, t.log)
	t.begin()
	if t.Upto > 0 {
		t.log.Info("folding up to where other slot groups begin", "from", from, "upto", t.Upto)
	}
	if to > from {
		t.log.Info("completing the batch that was under way", "from", from, "to", to)
		t.folder.cur.Recovered, t.folder.cur.until = true, to
	}
	return nil
}

// recoverable returns the position and the end of a batch that has been
// decided and perhaps not completed. When the stream no longer has that
// batch's messages, its end is the position.
func (t *term) recoverable(ctx context.Context, folded store.Folded) (from, to uint64, err error) {
	rec := t.decisions.Record()
	state, err := t.streamState(ctx, max(rec.To, t.Upto, t.keys.Applied(), folded.Upto, folded.Seq))
	if err != nil {
		return 0, 0, err
	}
	if err := t.compare(ctx, state, folded); err != nil {
		return 0, 0, err
	}
	if t.whole, err = t.present(ctx, state, rec.To); err != nil {
		return 0, 0, err
	}
	if t.last, err = t.present(ctx, state, t.Upto); err != nil {
		return 0, 0, err
	}
	from, to = rec.From, rec.To
	if to > from && t.whole <= from {
		t.log.Error("the stream has dropped messages before they were folded", "from", from, "to", to, "first", state.FirstSeq)
		from = to
		if err := t.decisions.Skip(ctx); err != nil {
			return 0, 0, err
		}
	}
	if folded.Upto > to { // and the stream has been moved on behind that
		from, to = folded.Upto, folded.Upto
	}
	return from, to, nil
}

// present returns the last sequence that the stream has a message of, of those
// up to seq; 0 when it has none. What a consumer counts as left is not asked:
// its server may be behind the others.
func (t *term) present(ctx context.Context, state jetstream.StreamState, seq uint64) (uint64, error) {
	if state.NumDeleted > 0 && seq >= state.FirstSeq {
		s, err := t.js.Stream(ctx, stream.Events)
		if err != nil {
			return 0, fmt.Errorf("read stream %s: %w", stream.Events, err)
		}
		info, err := s.Info(ctx, jetstream.WithDeletedDetails(true))
		if err != nil {
			return 0, fmt.Errorf("read stream %s: %w", stream.Events, err)
		}
		state = info.State
	}
	slices.Sort(state.Deleted)
	for ; seq >= state.FirstSeq && seq > 0; seq-- {
		if _, deleted := slices.BinarySearch(state.Deleted, seq); !deleted {
			return seq, nil
		}
	}
	return 0, nil
}

// fillRows is how many identities are put into the key store at once when it is
// filled; tests need fewer.
var fillRows = 50_000

// keysError is an error of the key store as that of a term. Starting again does
// not mend it, unless the disk was full, which it is not for ever.
func keysError(err error) error {
	if err == nil || errors.Is(err, keystore.ErrFull) {
		return err
	}
	return stopError{err}
}

// fillKeys reads the identities that the key store lacks from ClickHouse, those
// of retired events among them.
func (t *term) fillKeys(ctx context.Context, upTo uint64) error {
	applied := t.keys.Applied()
	if applied >= upTo {
		return nil
	}
	t.log.Info("filling the key store", "from", applied, "to", upTo)
	var batch []keystore.Sighting
	var broken error // of the key store, which asking ClickHouse again does not mend
	fold := func(upTo uint64) error {
		_, broken = t.keys.Fold(batch, upTo)
		batch = batch[:0]
		return keysError(broken)
	}
	err := t.db.Retry(ctx, "fill the key store", func(ctx context.Context) error {
		batch = batch[:0]
		err := t.db.Identities(ctx, t.Group, applied, upTo, func(id event.Identity, seq uint64) error {
			if batch = append(batch, keystore.See(id, seq)); len(batch) < fillRows {
				return nil
			}
			return fold(applied)
		})
		if broken != nil {
			return nil
		}
		return err
	})
	if err = cmp.Or(keysError(broken), err); err != nil {
		return err
	}
	if err := fold(upTo); err != nil {
		return err
	}
	return t.keys.Sync()
}

func (t *term) begin() { t.folder.begin(<-t.free) }

// read hands chunks of messages to the folder until ctx ends.
func (t *term) read(ctx context.Context, chunks chan<- []source.Message) error {
	for {
		ms, err := t.src.Next(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return lost(t.durable.Load(), err)
		}
		select {
		case chunks <- ms:
		case <-ctx.Done():
			return nil
		}
	}
}

// fold turns chunks into batches until there are no more, and hands the last
// one over too.
func (t *term) fold(ctx context.Context, chunks <-chan []source.Message) error {
	var started time.Time // when the last batch was handed over
	idle := false
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		if t.ended() {
			return t.end(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case ms, ok := <-chunks:
			if !ok {
				return t.finish(ctx)
			}
			for _, m := range ms {
				if t.Upto > 0 && m.Seq > t.Upto {
					return t.end(ctx)
				}
				if err := t.add(ctx, m); err != nil {
					return err
				}
			}
		case <-t.idle:
			idle = true
		case <-pause.C:
		}
		if !idle || t.folder.cur.messages == 0 || t.folder.cur.until > 0 {
			continue
		}
		if wait := t.interval() - time.Since(started); wait > 0 {
			pause.Reset(wait)
			continue
		}
		started, idle = time.Now(), false
		if err := t.hand(ctx); err != nil {
			return err
		}
	}
}

// interval is the least time between the starts of two batches that are not
// full. A database that is slow is given fewer and larger ones, so that it is
// at work on them for a quarter of the time at most.
func (t *term) interval() time.Duration {
	return max(t.cfg.MinInterval, min(4*time.Duration(t.took.Load()), time.Second))
}

// add folds a message, and hands the batch over when it is complete.
func (t *term) add(ctx context.Context, m source.Message) error {
	b := t.folder.cur
	if b.until > 0 && m.Seq > b.until { // the stream has lost the batch's last message
		if err := t.hand(ctx); err != nil {
			return err
		}
	}
	t.folder.add(m)
	if b = t.folder.cur; b.until > 0 {
		if m.Seq < t.whole {
			return nil
		}
		return t.hand(ctx)
	}
	if b.messages == many {
		b.grow(t.cfg.BatchRows)
	}
	if b.messages >= t.cfg.BatchRows || b.bytes() >= t.cfg.BatchBytes || len(b.groups.quarters) >= maxQuarters {
		return t.hand(ctx)
	}
	return nil
}

// hand seals the batch, gives it to the flusher and begins another one.
func (t *term) hand(ctx context.Context) error {
	if until := t.folder.cur.until; until > 0 {
		t.folder.position, t.folder.cur.To, t.folder.cur.until = until, until, 0
	}
	b, err := t.folder.seal(ctx)
	if err != nil {
		return err
	}
	t.metrics.cached(t.Group, t.folder.view.Bytes())
	select {
	case t.sealed <- b:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case next := <-t.free:
		t.folder.begin(next)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended tells whether a group that ends has been folded as far as it goes.
func (t *term) ended() bool {
	return t.Upto > 0 && t.folder.cur.until == 0 && t.folder.position >= t.last
}

// end hands over what is left of a group that ends.
func (t *term) end(ctx context.Context) error {
	if t.folder.cur.until > 0 { // the stream has lost the batch's last message
		if err := t.hand(ctx); err != nil {
			return err
		}
	}
	t.folder.position, t.folder.cur.To = t.Upto, t.Upto
	t.log.Info("the slot group ends", "upto", t.Upto)
	if t.folder.cur.From == t.Upto {
		return nil
	}
	return t.handLast(ctx)
}

// finish hands over what has been folded when reading has ended. A batch that
// was being recovered and is not whole stays decided, for the next term.
func (t *term) finish(ctx context.Context) error {
	if b := t.folder.cur; b.messages == 0 || b.until > 0 {
		return nil
	}
	return t.handLast(ctx)
}

// handLast seals the batch and gives it to the flusher; no other follows.
func (t *term) handLast(ctx context.Context) error {
	b, err := t.folder.seal(ctx)
	if err != nil {
		return err
	}
	select {
	case t.sealed <- b:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// rows reads funnel rows of one slot group back, for as long as it takes.
type rows struct {
	db    *store.Store
	group uint32
}

func (r rows) Buckets(ctx context.Context, add func(contract.Width, uint32)) error {
	return r.db.Buckets(ctx, r.group, add)
}

func (r rows) Rows(ctx context.Context, width contract.Width, buckets []uint32, add func(contract.Key, funnel.Row)) error {
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
