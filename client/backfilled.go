package client

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// tooOld tells whether an event has waited for so long, in a spool, that
// Millrace would refuse it, or would by the time it has it.
func tooOld(r *event.Record, now time.Time) bool {
	return !r.Meta.Backfilled && now.Sub(r.Time()) > event.MaxAge-10*time.Minute
}

// markBackfilled returns an event's text with metadata.backfilled set, which
// lets it be of any age and does not change its identity.
func markBackfilled(text []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("mark as backfilled: %w", err)
	}
	metadata := map[string]json.RawMessage{}
	if m := fields["metadata"]; len(m) > 0 && string(m) != "null" {
		if err := json.Unmarshal(m, &metadata); err != nil {
			return nil, fmt.Errorf("mark as backfilled: %w", err)
		}
	}
	metadata["backfilled"] = json.RawMessage("true")
	m, err := json.Marshal(metadata)
	if err != nil {
		return nil, fmt.Errorf("mark as backfilled: %w", err)
	}
	fields["metadata"] = m
	return json.Marshal(fields)
}
