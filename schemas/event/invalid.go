package event

import "fmt"

// Invalid says which rule a field breaks, of an event or of any other request. It is
// the error of Decode and of Validate.
type Invalid struct {
	Field string // JSON name of the field; empty when the rule is about the whole
	Code  string // a stable name of the rule, for metrics and programs
	Rule  string // the rule, for people
}

func (e *Invalid) Error() string {
	if e.Field == "" {
		return e.Rule
	}
	return e.Field + ": " + e.Rule
}

var (
	errTimeForm = &Invalid{
		"occurred_at",
		"time_format",
		`must be an RFC 3339 time in UTC, such as "2026-02-10T14:30:00Z", with at most nine digits of fraction`,
	}
	errTimeZone  = &Invalid{"occurred_at", "time_not_utc", `must be in UTC: it has to end in "Z" or "+00:00"`}
	errTimeRange = &Invalid{"occurred_at", "time_range", "must lie between the years 1970 and 2261"}
	errFuture    = &Invalid{
		"occurred_at", "time_future", fmt.Sprintf("must not be in the future (%s of clock skew are allowed)",
			ClockSkew),
	}
	errTooOld = &Invalid{
		"occurred_at", "time_too_old", "must not be more than 24 hours in the past, unless metadata.backfilled is true",
	}
	errBackfill = &Invalid{
		"metadata.backfilled",
		"backfill_forbidden", "needs a caller with the scope events:backfill",
	}

	errUTF8     = &Invalid{"", "utf8", "the event must be valid UTF-8"}
	errJSON     = &Invalid{"", "json", "the event must be one JSON object"}
	errTooLarge = &Invalid{"", "size", fmt.Sprintf("the event must be at most %d bytes", MaxSize)}

	errMetadataObject = &Invalid{"metadata", "metadata_object", "must be a JSON object"}
	errMetadataSize   = &Invalid{"metadata", "metadata_size", fmt.Sprintf("must be at most %d bytes", MaxMetadata)}
	errSchemaVersion  = &Invalid{"metadata_schema_version", "schema_version", "must be a whole number from 1 to 65535"}
)

func missing(field string) *Invalid {
	return &Invalid{field, "missing", "is required and must not be empty"}
}

func notString(field string) *Invalid {
	return &Invalid{field, "type", "must be a string"}
}

func tooLong(field string, limit int) *Invalid {
	return &Invalid{field, "length", fmt.Sprintf("must be at most %d bytes", limit)}
}

func control(field string) *Invalid {
	return &Invalid{field, "control_character", "must not contain control characters"}
}

func badURL(field string) *Invalid {
	return &Invalid{
		field,
		"url", "must be an absolute http or https URL with a host, without spaces or control characters",
	}
}
