package queue

import (
	"context"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// StartHanded starts items whose messages the caller has just pulled, or that were
// offered to it. An item that was pulled may be started already in the name of a plain daemon, which has given the
// message back since: whoever pulled the message last has the item now. Who asks
// again, because the answer was lost, has it still.
func (s *Store) StartHanded(ctx context.Context, q ID, commands []Command) ([]Result, error) {
	results, err := s.Apply(ctx, q, item.Start, commands)
	if err != nil {
		return nil, err
	}
	var again []Command
	var places []int
	for i, r := range results {
		c := commands[i]
		switch {
		case r.Outcome != item.Fenced || r.Status != item.Started || c.Offered:
		case r.Worker == stream.PlainWorker && r.Generation == c.Generation+1:
			c.Generation, c.Takeover = r.Generation, true
			again, places = append(again, c), append(places, i)
		case c.Worker != "" && r.Worker == c.Worker && r.Generation == c.Generation+2: // it was taken over before
			results[i].Outcome = item.Repeated
		}
	}
	if len(again) == 0 {
		return results, nil
	}
	taken, err := s.Apply(ctx, q, item.Start, again)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		results[place] = taken[i]
	}
	return results, nil
}
