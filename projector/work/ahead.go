package work

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/internal/queue/handout"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// A consumer hands messages out in the order of the stream. So that priority
// holds for every daemon, only so many messages of a queue are put on the stream
// before they are handed out, in the order of the queue; and when an item comes
// that goes before some of them, those are taken back.

// window is how many messages of a queue may wait on the stream; mixedWindow
// where messages had to be taken back lately; behindWindow where clients take items
// without messages, faster than they become ready, and no daemon waits for one.
const (
	window       = 1000
	mixedWindow  = 100
	behindWindow = 100
	mixedFor     = 10 * time.Second
)

// ahead counts the messages of a queue that wait on the stream to be handed out.
type ahead struct {
	messages int   // at most
	lowest   int16 // priority among them, or below
	mixed    time.Time
	looked   time.Time // when the server was last asked how many there are
	moved    time.Time // when the number last differed from what it was, so somebody takes messages
}

func (a *ahead) add(priority int16) { a.messages, a.lowest = a.messages+1, min(a.lowest, priority) }

func (a *ahead) window() int {
	if time.Since(a.mixed) < mixedFor {
		return mixedWindow
	}
	return window
}

// rest is how long to wait for room: longer while nobody takes messages.
func (a *ahead) rest(poll time.Duration) time.Duration {
	if time.Since(a.moved) < stillFor {
		return soonFull
	}
	return poll
}

// taken are the queues of which clients take what is in the outbox themselves, and that
// were looked at a moment ago.
func (r *relay) taken() (queues []queue.ID) {
	for q, a := range r.ahead {
		if time.Since(a.looked) < r.cfg.Poll && r.offered(q).isBehind() {
			queues = append(queues, q)
		}
	}
	return queues
}

// room is how many more messages of a queue may be put on the stream, of which
// the first has the priority top, and how long to wait where there is no room.
func (r *relay) room(ctx context.Context, q queue.ID, top int16) (n int, full time.Duration, err error) {
	a := r.ahead[q]
	if a == nil {
		a = &ahead{messages: math.MaxInt, lowest: 0}
		r.ahead[q] = a
	}
	passes := a.messages > 0 && top > a.lowest
	behind := r.offered(q).isBehind()
	switch {
	case passes:
	case a.messages >= a.window() && time.Since(a.looked) < a.rest(r.cfg.Poll):
		return 0, a.rest(r.cfg.Poll), nil
	case !behind && a.messages < a.window()/2:
		return a.window() - a.messages, 0, nil
	}
	info, err := r.consumer(ctx, r.name(q))
	if err != nil {
		return 0, 0, err
	}
	a.looked = time.Now()
	if a.messages != int(info.NumPending) {
		a.messages, a.moved = int(info.NumPending), a.looked
	}
	if a.messages == 0 {
		a.lowest = item.MaxPriority
	} else if passes {
		if err := r.takeBack(ctx, q, top); err != nil {
			return 0, 0, fmt.Errorf("take messages of %s back: %w", r.name(q), err)
		}
		a.messages, a.lowest, a.mixed = 0, top, time.Now()
	}
	most := a.window()
	if behind && info.NumWaiting == 0 {
		most = min(most, behindWindow)
	}
	return max(most-a.messages, 0), a.rest(r.cfg.Poll), nil
}

// pausedFor bounds how long a consumer rests while messages are taken back,
// should this process die meanwhile.
const pausedFor = 5 * time.Second

// takeBack takes messages of a queue off the stream that nobody has been handed
// and whose items have a lower priority, and puts their entries back into the
// outbox. The consumer rests meanwhile, so that nobody is handed one of them.
// What this process leaves undone when it dies is mended.
func (r *relay) takeBack(ctx context.Context, q queue.ID, below int16) error {
	r.pausing.Lock()
	defer r.pausing.Unlock()
	name := r.name(q)
	info, err := r.consumer(ctx, name)
	if err != nil {
		return err
	}
	if !info.Paused {
		if _, err := r.js.PauseConsumer(ctx, stream.Work, name, time.Now().Add(pausedFor)); err != nil {
			return err
		}
		defer func() {
			if _, err := r.js.ResumeConsumer(ctx, stream.Work, name); err != nil {
				r.log.Warn("a queue rests longer than it has to", "queue", name, "error", err)
			}
		}()
		if info, err = r.consumer(ctx, name); err != nil {
			return err
		}
	}
	lower, err := r.lower(ctx, name, info, below)
	if err != nil || len(lower) == 0 {
		return err
	}
	return r.putBack(ctx, q, name, lower)
}

// lower returns the messages that nobody has been handed and whose items have a
// lower priority.
func (r *relay) lower(
	ctx context.Context, name string, info *jetstream.ConsumerInfo, below int16,
) (map[uint64]ref, error) {
	lower := map[uint64]ref{}
	for from := info.Delivered.Stream + 1; ; {
		seqs, err := r.messages(ctx, name, from, math.MaxUint64)
		if err != nil || len(seqs) == 0 {
			return lower, err
		}
		from = seqs[len(seqs)-1] + 1
		about, err := r.blocks.find(ctx, seqs)
		if err != nil {
			return nil, err
		}
		refs, places := make([]ref, 0, len(about)), make([]uint64, 0, len(about))
		for seq, of := range about {
			refs, places = append(refs, of), append(places, seq)
		}
		items, queues, generations := queue.Columns(refs)
		rows, err := r.store.Pool().Query(ctx, sqlLower, items, queues, generations, below)
		if err != nil {
			return nil, err
		}
		var place int
		_, err = pgx.ForEachRow(rows, []any{&place}, func() error {
			lower[places[place-1]] = refs[place-1]
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
}

// putBack removes messages and puts their entries back into the outbox. A server
// of a cluster may have handed one out before it heard that the consumer rests:
// then putBack takes it that a plain daemon has the item.
func (r *relay) putBack(ctx context.Context, q queue.ID, name string, messages map[uint64]ref) error {
	for seq := range messages {
		if err := handout.Remove(ctx, r.js, seq); err != nil {
			return err
		}
	}
	info, err := r.consumer(ctx, name)
	if err != nil {
		return err
	}
	var handed []queue.Command
	again := map[ref]struct{}{}
	for seq, of := range messages {
		if seq <= info.Delivered.Stream {
			handed = append(handed, queue.Command{
				ID: of.Item, Generation: of.Generation,
				Worker: stream.PlainWorker, Has: true,
			})
		} else {
			again[of] = struct{}{}
		}
	}
	if _, err := r.store.Apply(ctx, q, item.Start, handed); err != nil {
		return err
	}
	_, err = r.enterOutbox(ctx, again)
	return err
}
