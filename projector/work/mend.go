package work

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/stream"
)

// differences are what the stream and Postgres do not agree on.
type differences struct {
	missing map[ref]struct{}    // ready, and no message says so
	lost    map[ref]struct{}    // a silent plain daemon has them, and would for ever; by the generation of the taking
	stale   map[uint64]struct{} // messages of items that nobody may take

	at   time.Time           // of the comparison, by the server's clock
	last uint64              // message that the stream had then
	held map[uint64]queue.ID // messages of items that plain daemons have
}

func (d *differences) none() bool { return len(d.missing)+len(d.lost)+len(d.stale) == 0 }

// dropEvery is how often blocks are deleted that no message needs.
const dropEvery = time.Minute

// mend compares the stream with Postgres again and again, and mends differences
// that two comparisons in a row have found.
func (t *session) mend(ctx context.Context) error {
	var before differences
	var dropped time.Time
	var took time.Duration
	wait := t.cfg.MendEvery
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		begin := time.Now()
		now, err := t.diff(ctx)
		if err != nil {
			return stopped(ctx, err)
		}
		if err := t.heedClock(now); err != nil {
			return stopped(ctx, err)
		}
		both := now.and(before)
		before = now
		if !both.none() {
			if err := t.resolve(ctx, both); err != nil {
				return stopped(ctx, err)
			}
			before = differences{}
		}
		if time.Since(dropped) > dropEvery {
			dropped = time.Now()
			if err := t.blocks.drop(ctx, t.first); err != nil {
				return stopped(ctx, err)
			}
		}
		last := took
		took = time.Since(begin)
		wait = t.cfg.pause(took, last)
	}
}

// pause is how long to wait before the next comparison, after two that took so
// long. It goes by the shorter of the two: a server that was away for a while may
// have held the other up.
func (c Config) pause(took, last time.Duration) time.Duration {
	return max(c.MendEvery, 19*min(took, last))
}

// diff compares the stream with Postgres. It reads the stream, waits until Postgres
// has what daemons had answered by then, and reads Postgres. It reads the stream
// while the relay rests, when all decided messages are on it: a message that two
// comparisons miss is not on its way.
func (t *session) diff(ctx context.Context) (d differences, err error) {
	t.still.Lock()
	live, err := t.live(ctx)
	t.still.Unlock()
	if err != nil {
		return d, err
	}
	if err := t.catchUp(ctx); err != nil {
		return d, err
	}
	t.first = live.first
	about, err := t.blocks.find(ctx, live.seqs)
	if err != nil {
		return d, err
	}
	d = differences{
		missing: map[ref]struct{}{}, lost: map[ref]struct{}{}, stale: map[uint64]struct{}{}, at: live.at,
		last: live.last, held: map[uint64]queue.ID{},
	}
	messages := make(map[ref]uint64, len(about))
	for seq, r := range about {
		if !t.givenUp(r.Queue, seq) {
			messages[r] = seq
		}
	}
	for _, seq := range live.seqs {
		d.stale[seq] = struct{}{} // until it is found to belong
	}
	if err := t.diffReady(ctx, messages, &d); err != nil {
		return d, err
	}
	return d, t.diffClaims(ctx, messages, &d)
}

// givenUp tells whether the server, when watch last looked, had done with a message
// that is still on the stream: it has delivered the message as often as it may. It
// says so in an advisory, which is lost when it has nowhere to go, as while the
// server's cluster has no leader for the answers.
func (t *session) givenUp(q queue.ID, seq uint64) bool {
	floor, known := t.floors.Load(q)
	return known && seq <= floor.(uint64)
}

// catchUp waits until all answers of daemons are applied.
func (t *session) catchUp(ctx context.Context) error {
	s, err := t.js.Stream(ctx, stream.WorkAcks)
	if err != nil {
		return fmt.Errorf("look at %s: %w", stream.WorkAcks, err)
	}
	state := s.CachedInfo().State
	for state.Msgs > 0 && t.answers.Load() < state.LastSeq {
		select {
		case <-t.grown:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * requestWait):
			return fmt.Errorf("answers are not read: at %d of %d", t.answers.Load(), state.LastSeq)
		}
	}
	return nil
}

// sqlReadWhole prepares a transaction for joins of whole tables, whatever the
// statistics say of their size.
const sqlReadWhole = "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_nestloop = off"

// diffReady finds items that are ready, and neither on the stream nor in the
// outbox. Its statement sees both tables at one moment. It reads them whole, which
// the store's connections are not set up for otherwise.
func (t *session) diffReady(ctx context.Context, messages map[ref]uint64, d *differences) error {
	err := pgx.BeginFunc(ctx, t.store.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, sqlReadWhole); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, sqlReady)
		if err != nil {
			return err
		}
		var r ref
		_, err = pgx.ForEachRow(rows, []any{&r.Item, &r.Queue, &r.Generation}, func() error {
			if seq, ok := messages[r]; ok {
				delete(d.stale, seq)
			} else {
				d.missing[r] = struct{}{}
			}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("compare what is ready: %w", err)
	}
	return nil
}

// diffClaims finds items that plain daemons have and that the server would leave with
// them for ever. When a message is gone or not delivered again, the daemon has been
// silent for as long as the server would have waited; otherwise for as long as the
// server waits for all the daemons that it may deliver the message to.
func (t *session) diffClaims(ctx context.Context, messages map[ref]uint64, d *differences) error {
	rows, err := t.store.Pool().Query(ctx, sqlPlainClaims)
	if err != nil {
		return fmt.Errorf("compare what plain daemons have: %w", err)
	}
	queues := map[queue.ID]queue.Settings{}
	for _, v := range t.queues() {
		queues[v.ID] = v
	}
	var r ref
	patience := map[ref]time.Duration{}
	_, err = pgx.ForEachRow(rows, []any{&r.Item, &r.Queue, &r.Generation}, func() error {
		if seq, ok := messages[ref{Item: r.Item, Queue: r.Queue, Generation: r.Generation - 1}]; !ok {
			patience[r] = t.cfg.lease(queues[r.Queue])
		} else {
			delete(d.stale, seq)
			d.held[seq] = r.Queue
			if v := queues[r.Queue]; v.MaxAttempts > 0 {
				patience[r] = time.Duration(v.MaxAttempts+1) * t.cfg.lease(v)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("compare what plain daemons have: %w", err)
	}
	for _, r := range t.orphans.silent(patience) {
		d.lost[r] = struct{}{}
	}
	return nil
}

func (d differences) and(other differences) differences {
	return differences{
		missing: common(d.missing, other.missing), lost: common(d.lost, other.lost),
		stale: common(d.stale, other.stale),
	}
}

func common[K comparable](a, b map[K]struct{}) map[K]struct{} {
	both := map[K]struct{}{}
	for k := range a {
		if _, ok := b[k]; ok {
			both[k] = struct{}{}
		}
	}
	return both
}

// resolve makes the stream and Postgres agree again.
func (t *session) resolve(ctx context.Context, d differences) error {
	t.log.Warn("work queues are mended", "missing", len(d.missing), "lost", len(d.lost), "stale", len(d.stale))
	if err := t.announce(ctx, d.missing); err != nil {
		return err
	}
	if err := t.giveBack(ctx, d.lost); err != nil {
		return err
	}
	for seq := range d.stale {
		if err := handout.Remove(ctx, t.js, seq); err != nil {
			return err
		}
		t.metrics.mended.WithLabelValues("stale").Inc()
	}
	return nil
}

// announce puts ready items into the outbox again.
func (t *session) announce(ctx context.Context, missing map[ref]struct{}) error {
	n, err := t.enterOutbox(ctx, missing)
	t.metrics.mended.WithLabelValues("missing").Add(float64(n))
	t.store.Announce()
	return err
}

// enterOutbox puts ready items into the outbox again, and returns how many. It
// enters none once the lock is not this term's any more: the successor may have
// entered them already, and their second messages would be handed out before
// anybody could find them.
func (t *session) enterOutbox(ctx context.Context, refs map[ref]struct{}) (entered int64, err error) {
	backend, lock := t.term.Lock()
	for part := range chunks(refs) {
		items, queues, generations := queue.Columns(part)
		tag, err := t.store.Pool().Exec(ctx, sqlAnnounce, items, queues, generations, backend, lock)
		if err != nil {
			return entered, fmt.Errorf("announce what is ready: %w", err)
		}
		entered += tag.RowsAffected()
	}
	return entered, nil
}

// giveBack takes items from silent daemons.
func (t *session) giveBack(ctx context.Context, lost map[ref]struct{}) error {
	commands := map[queue.ID][]queue.Command{}
	for r := range lost {
		commands[r.Queue] = append(commands[r.Queue], queue.Command{
			ID: r.Item, Generation: r.Generation, Worker: stream.PlainWorker,
			Error: "not answered, and not delivered again",
		})
	}
	for q, commands := range commands {
		if _, err := t.store.Lapse(ctx, q, commands); err != nil {
			return err
		}
		t.metrics.mended.WithLabelValues("lost").Add(float64(len(commands)))
	}
	return nil
}

// chunks cuts a set into parts that go into a statement.
func chunks(set map[ref]struct{}) func(yield func([]ref) bool) {
	return func(yield func([]ref) bool) {
		part := make([]ref, 0, min(len(set), batchSize))
		for r := range set {
			if part = append(part, r); len(part) == batchSize {
				if !yield(part) {
					return
				}
				part = part[:0]
			}
		}
		if len(part) > 0 {
			yield(part)
		}
	}
}
