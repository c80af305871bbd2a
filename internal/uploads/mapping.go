package uploads

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
)

// Map names the columns that a job's items are shown by. Workers get the mapping that there was when their item came
// into the queue. Nothing else follows from it, so it can be changed at any time.
func (s *Store) Map(ctx context.Context, who Viewer, id uuid.UUID, mapping map[string]string) (Job, error) {
	return s.change(ctx, "map columns of", who, id, func(Job) (string, []any, error) {
		text, err := json.Marshal(mapping)
		return "mapping = $2", []any{string(text)}, err
	})
}
