package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/tracking"
	"github.com/millrace-io/millrace/schemas/shard"
	"github.com/millrace-io/millrace/schemas/stream"
)

// Queue hands items of the work stream to those who ask over HTTP: it is one
// more daemon of each stage.
type Queue struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	pool    *pgxpool.Pool
	batches *batches

	mu        sync.Mutex
	consumers map[shard.Stage]jetstream.Consumer
}

var _ tracking.Queue = (*Queue)(nil)

// NewQueue returns a queue. The connections are the caller's.
func NewQueue(nc *nats.Conn, pool *pgxpool.Pool) (*Queue, error) {
	if nc == nil || pool == nil {
		return nil, errors.New("work: NATS and a connection pool are needed")
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestWait))
	if err != nil {
		return nil, fmt.Errorf("work: %w", err)
	}
	return &Queue{nc: nc, js: js, pool: pool, batches: newBatches(pool), consumers: map[shard.Stage]jetstream.Consumer{}}, nil
}

// relayWait is how long to wait for what Postgres has as ready and the stream
// has not got yet.
const relayWait = 300 * time.Millisecond

// Pull takes messages of up to limit items off the stream.
func (q *Queue) Pull(ctx context.Context, stage shard.Stage, limit int) ([]tracking.Handed, func([]bool), error) {
	c, err := q.consumer(ctx, stage)
	if err != nil {
		return nil, nil, err
	}
	msgs, err := take(c.FetchNoWait(limit))
	if err == nil && len(msgs) == 0 {
		var some bool
		err = q.pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM millrace.ready WHERE stage = $1)", int16(stage)).Scan(&some)
		if err == nil && some {
			if msgs, err = take(c.Fetch(1, jetstream.FetchMaxWait(relayWait))); err == nil && len(msgs) == 1 && limit > 1 {
				var more []jetstream.Msg
				more, err = take(c.FetchNoWait(limit - 1))
				msgs = append(msgs, more...)
			}
		}
	}
	if err != nil {
		q.forget(stage)
		q.giveBack(msgs, 0)
		return nil, nil, fmt.Errorf("pull from the queue of %s: %w", stage, err)
	}
	handed, msgs := parse(msgs)
	return handed, func(forget []bool) { q.settle(msgs, forget) }, nil
}

func take(batch jetstream.MessageBatch, err error) ([]jetstream.Msg, error) {
	if err != nil {
		return nil, err
	}
	var msgs []jetstream.Msg
	for m := range batch.Messages() {
		msgs = append(msgs, m)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
		return msgs, err
	}
	return msgs, nil
}

// parse leaves out what is no item; it is removed.
func parse(all []jetstream.Msg) (handed []tracking.Handed, msgs []jetstream.Msg) {
	for _, m := range all {
		item, err := stream.ParseWorkItem(m.Data())
		if err != nil {
			_ = m.TermWithReason("no work item") // lost: it comes again
			continue
		}
		handed, msgs = append(handed, tracking.Handed{ID: item.ID, Generation: item.Generation}), append(msgs, m)
	}
	return handed, msgs
}

// giveBack has the server hand messages out again after a delay.
func (q *Queue) giveBack(msgs []jetstream.Msg, delay time.Duration) {
	for _, m := range msgs {
		_ = q.nc.Publish(m.Reply(), stream.Refused(delay)) // lost: it is free again after the time of a silent daemon
	}
}

// settle acknowledges what is to be forgotten, and frees the rest.
func (q *Queue) settle(msgs []jetstream.Msg, forget []bool) {
	for i, m := range msgs {
		if forget[i] {
			_ = q.nc.Publish(m.Reply(), stream.Settled) // lost: it comes again, and is known to have gone on
		} else {
			q.giveBack(msgs[i:i+1], relayWait)
		}
	}
}

func (q *Queue) consumer(ctx context.Context, stage shard.Stage) (jetstream.Consumer, error) {
	q.mu.Lock()
	c := q.consumers[stage]
	q.mu.Unlock()
	if c != nil {
		return c, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	c, err := q.js.Consumer(ctx, stream.Work, stage.String())
	if err != nil {
		return nil, fmt.Errorf("find the queue of %s: %w", stage, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.consumers[stage] = c
	return c, nil
}

func (q *Queue) forget(stage shard.Stage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.consumers, stage)
}

// Withdraw takes the message of one item off the stream, or its entry out of
// the outbox, unless a daemon may have it.
func (q *Queue) Withdraw(ctx context.Context, stage shard.Stage, id int64, generation int32) (bool, error) {
	found, err := q.withdraw(ctx, ref{id, stage, generation})
	return found == free, err
}

// whereabouts is what becomes of an item that is to be taken out of its queue.
type whereabouts int

const (
	absent whereabouts = iota // neither announced nor to be: that, or an answer about it, is under way
	free                      // it was there, and is out
	held                      // a daemon has it, or may have
)

func (q *Queue) withdraw(ctx context.Context, r ref) (whereabouts, error) {
	found, err := q.takeOut(ctx, r)
	if err != nil {
		return found, fmt.Errorf("take item %d out of the queue of %s: %w", r.Item, r.Stage, err)
	}
	return found, nil
}

func (q *Queue) takeOut(ctx context.Context, r ref) (whereabouts, error) {
	tag, err := q.pool.Exec(ctx, "DELETE FROM millrace.outbox WHERE item_id = $1 AND stage = $2 AND generation = $3", r.Item, int16(r.Stage), r.Generation)
	if err != nil {
		return absent, err
	}
	if tag.RowsAffected() > 0 {
		return free, nil
	}
	floor, at, err := q.passed(ctx, r.Stage)
	if err != nil {
		return absent, err
	}
	var seq *int64
	err = q.pool.QueryRow(ctx, sqlSequence, r.Item, int16(r.Stage), r.Generation, int64(floor)).Scan(&seq)
	if err != nil || seq == nil {
		return absent, err
	}
	// What the consumer has passed while the message was there, a daemon has.
	// One that it passes between the two looks may have gone either way.
	if at >= uint64(*seq) {
		return held, nil
	}
	if err := remove(ctx, q.js, uint64(*seq)); err != nil {
		return absent, err
	}
	if _, at, err = q.passed(ctx, r.Stage); err != nil || at >= uint64(*seq) {
		return held, err
	}
	return free, nil
}

// passed returns up to where all messages of a stage are gone, and how far they
// have been handed out.
func (q *Queue) passed(ctx context.Context, stage shard.Stage) (floor, at uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	c, err := q.js.Consumer(ctx, stream.Work, stage.String())
	if err != nil {
		return 0, 0, err
	}
	info := c.CachedInfo()
	return info.AckFloor.Stream, info.Delivered.Stream, nil
}
