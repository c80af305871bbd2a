package client

import (
	"time"

	"github.com/millrace-io/millrace/schemas/event"
)

// tooOld tells whether an event has waited for so long, in a spool, that
// Millrace would refuse it, or would by the time it has it.
func tooOld(r *event.Record, now time.Time) bool {
	return !r.Meta.Backfilled && now.Sub(r.Time()) > event.MaxAge-10*time.Minute
}
