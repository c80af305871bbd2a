package tracking

import (
	"context"

	"github.com/millrace-io/millrace/schemas/shard"
)

// StartHanded starts items that a queue beside Postgres has just handed to the
// caller. Such an item may stand here as with plain, a worker nobody knows:
// then whoever has been handed it after that has it now.
func (s *Store) StartHanded(ctx context.Context, stage shard.Stage, plain string, commands []Command) ([]Result, error) {
	results, err := s.Apply(ctx, stage, shard.Start, commands)
	if err != nil {
		return nil, err
	}
	var again []Command
	var places []int
	for i, r := range results {
		if r.Outcome == shard.Fenced && r.Status == shard.Started && r.Worker == plain && r.Generation == commands[i].Generation+1 {
			c := commands[i]
			c.Generation, c.Takeover = r.Generation, true
			again, places = append(again, c), append(places, i)
		}
	}
	if len(again) == 0 {
		return results, nil
	}
	taken, err := s.Apply(ctx, stage, shard.Start, again)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		results[place] = taken[i]
	}
	return results, nil
}
