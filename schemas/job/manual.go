package job

import (
	"encoding/json"

	"github.com/google/uuid"
)

// sourceID is the member of a draft that names the source of a job that is to be made.
const sourceID = "source_id"

// ReadManual reads what somebody says of a job that is to be made by hand: its source,
// and settings, of which one says when it runs.
func ReadManual(text []byte) *Draft {
	d := readDraft(text, sourceID)
	if len(d.broken) == 0 && d.set.IntervalMinutes == nil && d.set.Cron == nil {
		d.breaks("interval_minutes", "missing", "is required, unless cron is given")
	}
	return d
}

func (d *Draft) readSource(value json.RawMessage) {
	var text string
	switch {
	case value == nil:
		d.breaks(sourceID, "missing", "is required")
	case isNull(value) || json.Unmarshal(value, &text) != nil:
		d.breaks(sourceID, "type", "must be a string")
	default:
		var err error
		if d.source, err = uuid.Parse(text); err != nil || len(text) != len(uuid.Nil.String()) {
			d.breaks(sourceID, "uuid", "must be a UUID, such as 0199f0a2-7c1e-7000-8000-000000000001")
		}
	}
}

// SourceID names the source of a job that is to be made.
func (d *Draft) SourceID() uuid.UUID { return d.source }
