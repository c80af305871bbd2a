package source

import (
	"time"

	"github.com/google/uuid"
)

// Types of events.
const (
	Created  = "SOURCE_CREATED"
	Updated  = "SOURCE_UPDATED"
	Deleted  = "SOURCE_DELETED"
	Enabled  = "SOURCE_ENABLED"
	Disabled = "SOURCE_DISABLED"
)

// ClockSkew is how far the time of an event may be after the time at which its stream
// took it.
const ClockSkew = 5 * time.Minute

// Event says how a source has changed.
type Event struct {
	ID        uuid.UUID `json:"event_id"` // what makes a repeat a repeat
	Type      string    `json:"event_type"`
	SourceID  uuid.UUID `json:"source_id"`
	Timestamp time.Time `json:"timestamp"`
	// Payload is Fields of a source that was created, else one of the types below.
	Payload any `json:"payload"`
}

// Update is the payload of a source that was updated: which fields, and what
// they were and are.
type Update struct {
	ChangedFields []string       `json:"changed_fields"`
	Previous      map[string]any `json:"previous"`
	Current       map[string]any `json:"current"`
}

// Deletion is the payload of a source that was deleted.
type Deletion struct {
	Name   string `json:"name"`
	Reason string `json:"deletion_reason"`
}

// Toggle is the payload of a source that was enabled or disabled.
type Toggle struct {
	Reason    string `json:"reason"`
	ToggledBy string `json:"toggled_by"` // user or system
	// DisabledBy is the same of a source that was disabled.
	DisabledBy string `json:"disabled_by,omitempty"`
}

// UserRequested is the reason of a change for which a user gives none.
const UserRequested = "user_requested"

const byUser = "user"

// Change is the type and the payload of an event.
type Change struct {
	Type    string
	Payload any
}

// Changes are what a user has changed, and why he has enabled or disabled the
// source, if he has: an update of all other fields, and an event of its own for
// that. There are none when nothing differs.
func Changes(from, to Fields, reason string) (all []Change) {
	u := Update{Previous: map[string]any{}, Current: map[string]any{}}
	for _, name := range Changed(from, to) {
		if name == "enabled" {
			continue
		}
		u.ChangedFields = append(u.ChangedFields, name)
		u.Previous[name], u.Current[name] = from.Field(name), to.Field(name)
	}
	if len(u.ChangedFields) > 0 {
		all = append(all, Change{Updated, u})
	}
	switch {
	case from.Enabled == to.Enabled:
	case to.Enabled:
		all = append(all, Change{Enabled, Toggle{Reason: reason, ToggledBy: byUser}})
	default:
		all = append(all, Change{Disabled, Toggle{Reason: reason, ToggledBy: byUser, DisabledBy: byUser}})
	}
	return all
}
