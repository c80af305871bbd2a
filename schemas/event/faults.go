package event

import (
	"slices"
	"time"
)

// fault notes that a rule is broken, nil for none. Of each field the first is
// noted: it is the cause of what else is wrong with the field.
func (r *Record) fault(invalid *Invalid) {
	if invalid != nil && !r.faulty(invalid.Field) {
		r.faults = append(r.faults, invalid)
	}
}

func (r *Record) faulty(field string) bool {
	return slices.ContainsFunc(r.faults, func(has *Invalid) bool {
		return has.Field == field || (field == "article_url" && has.Field == "content_url")
	})
}

// Faults returns every rule that an event breaks, whatever Decode has returned,
// one for each field. The first is that of Decode, or else that of Validate.
func (r *Record) Faults(stages Stages, received time.Time, backfill bool) []Invalid {
	if len(r.faults) == 0 || r.faults[0].Field != "" { // otherwise it could not be read
		if _, ok := stages.Index(r.Stage); !ok {
			r.fault(stages.unknown())
		}
		if !r.faulty("occurred_at") {
			r.fault(r.checkTime(received, backfill))
		}
	}
	out := make([]Invalid, len(r.faults))
	for i, invalid := range r.faults {
		out[i] = *invalid
	}
	return out
}
