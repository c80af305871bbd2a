package userqueue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/millrace-io/millrace/internal/dbpool"
	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/stream"
)

// enqueueWait bounds one request to add items.
const enqueueWait = 10 * time.Second

// Serve adds items that clients ask for over NATS, until ctx ends. Any number of
// processes may serve: each request goes to one.
func (s *Store) Serve(ctx context.Context, nc *nats.Conn, log *slog.Logger) error {
	requests := make(chan *nats.Msg, 256)
	sub, err := nc.ChanQueueSubscribe(stream.WorkEnqueue, "millrace", requests)
	if err != nil {
		return fmt.Errorf("answer on %s: %w", stream.WorkEnqueue, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // or the connection is closed
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg := <-requests:
			data, err := json.Marshal(s.answer(ctx, msg.Data, log))
			if err == nil {
				err = msg.Respond(data)
			}
			if err != nil {
				log.Debug("a client that adds items is not answered", "error", err)
			}
		}
	}
}

func (s *Store) answer(ctx context.Context, data []byte, log *slog.Logger) stream.Enqueued {
	ctx, cancel := context.WithTimeout(ctx, enqueueWait)
	defer cancel()
	in, broken := readEnqueue(data)
	if len(broken) > 0 {
		errs := make([]error, len(broken))
		for i := range broken {
			errs[i] = &broken[i]
		}
		return stream.Enqueued{Error: errors.Join(errs...).Error(), Refused: true}
	}
	added, err := s.Enqueue(ctx, in.Queue, in.Items)
	if err != nil {
		log.Debug("items of a client are not added", "queue", in.Queue, "error", err)
		return stream.Enqueued{
			Error: dbpool.Message(err), Refused: errors.Is(err, queue.ErrNoQueue) || dbpool.Refused(err),
		}
	}
	out := stream.Enqueued{Items: make([]stream.EnqueuedItem, len(added))}
	for i, a := range added {
		out.Items[i] = stream.EnqueuedItem(a)
	}
	return out
}
