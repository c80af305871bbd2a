package batches

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/object"
)

// Bounds of an announcement.
const (
	MaxJob   = 255     // bytes of a job's name
	MaxText  = 255     // bytes of a platform, a task type, a keyword or a project
	MaxItems = 100_000 // of one batch
)

// legacyPrefix begins the names that batches without a job have in the place of one.
const legacyPrefix = "legacy:"

// Invalid says which rule a field breaks.
type Invalid = item.Invalid

// Format is how a message announces a batch.
type Format int

// The formats.
const (
	Event        Format = iota // a data.collected event: payload.minio_path names the object
	Legacy                     // data_ref names the object
	Inline                     // the items are in the message
	Notification               // S3 or MinIO says that an object was stored, which says itself what it holds
)

// String is the name of a format.
func (f Format) String() string {
	switch f {
	case Event:
		return "event"
	case Legacy:
		return "legacy"
	case Notification:
		return "notification"
	}
	return "inline"
}

// ID is the identity of a batch.
type ID struct {
	Job   string
	Index int32
}

// Announcement is what a message says about a batch.
type Announcement struct {
	Format Format
	Batch  ID
	Object object.Name       // zero when the items are inline
	Items  []json.RawMessage // when they are inline
	// Records are those of a notification which say that objects were stored, or break a rule. Object is that of
	// the first that is whole. It announces a batch when it has one, and Describe has completed it.
	Records []json.RawMessage `json:"-"`

	// Count is how many items the batch has, by the message; -1: it does not say.
	Count int
	// Project, Platform, TaskType and Keyword are empty where the message does not say.
	Project, Platform, TaskType, Keyword string
}

// check returns a rule that an announcement breaks which ReadAnnouncement did not return.
func (a *Announcement) check() error {
	for _, text := range [...]string{a.Batch.Job, a.Project, a.Platform, a.TaskType, a.Keyword} {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			return errors.New("a text of the announcement must be valid UTF-8 without control characters")
		}
	}
	switch {
	case a.Format < Event || a.Format > Notification:
		return fmt.Errorf("there is no format %d", a.Format)
	case a.Batch.Job == "" || a.Batch.Index < 0:
		return errors.New("the batch must have a job, and an index from 0")
	case a.Count < -1 || a.Count > MaxItems:
		return fmt.Errorf("the number of announced items must be at most %d", MaxItems)
	case a.Format == Inline && a.Object != object.Name{}:
		return errors.New("inline items have no object")
	case a.Format != Inline:
		return a.Object.Check()
	}
	return nil
}

// ReadAnnouncement reads a message in any of the formats. It passes over fields that it
// does not know, takes null for absent, and returns every rule that the message breaks.
func ReadAnnouncement(text []byte) (Announcement, []Invalid) {
	if !utf8.Valid(text) {
		return Announcement{}, []Invalid{{Code: "utf8", Rule: "must be valid UTF-8"}}
	}
	envelope := fields{}
	if err := json.Unmarshal(text, &envelope.of); err != nil || envelope.of == nil {
		return Announcement{}, []Invalid{{Code: "json", Rule: "must be one JSON object"}}
	}
	r := reader{}
	switch payload := envelope.object("payload"); {
	case payload.has("minio_path"):
		r.event(payload)
	case envelope.has("data_ref"):
		r.legacy(envelope)
	case envelope.has("Records"), envelope.has("Event"):
		r.notification(envelope)
	default:
		r.inline(envelope)
	}
	return r.Announcement, r.broken
}
