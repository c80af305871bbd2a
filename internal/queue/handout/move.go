package handout

import (
	"context"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/queue"
	"github.com/millrace-io/millrace/schemas/item"
)

// Extend has a lease begin anew. It is not among the moves of package item.
const Extend item.Move = -1

var moves = map[string]item.Move{
	"start": item.Start, "done": item.Complete, "fail": item.Fail, "again": item.Again, "release": item.Release,
	"extend": Extend, "retry": item.Retry, "cancel": item.Cancel,
}

// ParseMove reads the word for a move, which has to be one of some, and returns the rule
// that it breaks if it is not. All systems have the same words, over HTTP and NATS.
func ParseMove(word string, some []string) (move item.Move, rule string) {
	if !slices.Contains(some, word) {
		last := len(some) - 1
		return 0, "must be " + strings.Join(some[:last], ", ") + " or " + some[last]
	}
	return moves[word], ""
}

// Move makes a move of items that a caller names, in a queue of any system. Done and fail also
// end an item that a plain daemon was handed a moment ago, by the generation of its message.
func (h *Handout) Move(
	ctx context.Context, of queue.Settings, move item.Move, commands []queue.Command,
) ([]queue.Result, error) {
	switch move {
	case Extend:
		return h.store.Renew(ctx, of.ID, commands)
	case item.Start:
		return h.Start(ctx, of.Name, commands)
	}
	results, err := h.store.Apply(ctx, of.ID, move, commands)
	if err != nil || move != item.Complete && move != item.Fail {
		return results, err
	}
	for i, r := range results {
		if r.Outcome != item.Forbidden || r.Status != item.New || r.Generation != commands[i].Generation {
			continue
		}
		if results[i], err = h.finishPulled(ctx, of, move, commands[i], r); err != nil {
			return nil, err
		}
	}
	return results, nil
}
