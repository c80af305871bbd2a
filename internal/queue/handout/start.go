package handout

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// maxNamed bounds how many items are withdrawn before they are started: each costs
// some milliseconds, and mending gives an item that was withdrawn and is not started
// soon a new message.
const maxNamed = 50

// Start starts items that the caller names, once their messages are off the
// stream: an item whose message a daemon has is answered as started. There is a
// transaction for each few items. After an error some may be started.
func (h *Handout) Start(ctx context.Context, name string, commands []queue.Command) ([]queue.Result, error) {
	of, err := h.store.Lookup(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("start %d items of %s: %w", len(commands), name, err)
	}
	results := make([]queue.Result, 0, len(commands))
	for part := range slices.Chunk(commands, maxNamed) {
		started, err := h.start(ctx, of.ID, name, part)
		if err != nil {
			return nil, fmt.Errorf("start %d items of %s: %w", len(part), name, err)
		}
		results = append(results, started...)
	}
	return results, nil
}

func (h *Handout) start(
	ctx context.Context, q queue.ID, name string, commands []queue.Command,
) ([]queue.Result, error) {
	now, err := h.store.Look(ctx, q, commands)
	if err != nil {
		return nil, err
	}
	free, places := commands[:0:0], []int{}
	results := make([]queue.Result, len(commands))
	for i, c := range commands {
		r, found, err := h.letGo(ctx, q, name, now[i], c)
		if err != nil {
			return nil, err
		}
		if found != Free {
			r.Outcome, r.Status = item.Forbidden, item.Started
			results[i] = r
			continue
		}
		if c.Generation == 0 && r.Status == item.New && r.Queued {
			c.Generation = r.Generation // not one that is handed out meanwhile
		}
		free, places = append(free, c), append(places, i)
	}
	applied, err := h.store.Apply(ctx, q, item.Start, free)
	for i, r := range applied {
		results[places[i]] = r
	}
	return results, err
}

// letGo takes an item out of the queue, if it is there in the generation that the
// command means. It waits for an item whose message is about to be published.
func (h *Handout) letGo(
	ctx context.Context, q queue.ID, name string, r queue.Result, c queue.Command,
) (queue.Result, Whereabouts, error) {
	for end := time.Now().Add(requestWait); ; {
		ready := r.Outcome != item.NotFound && r.Status == item.New && r.Queued
		if !ready || c.Generation != 0 && c.Generation != r.Generation {
			return r, Free, nil // Apply says what of it
		}
		found, err := h.Withdraw(ctx, name, queue.Ref{Item: r.ID, Queue: q, Generation: r.Generation})
		if err != nil || found != Absent || time.Now().After(end) {
			return r, found, err
		}
		select {
		case <-ctx.Done():
			return r, found, ctx.Err()
		case <-time.After(absentWait):
		}
		again, err := h.store.Look(ctx, q, []queue.Command{c})
		if err != nil {
			return r, found, err
		}
		r = again[0]
	}
}

// absentWait is how soon an item is looked for again that is about to be
// announced.
const absentWait = 20 * time.Millisecond
