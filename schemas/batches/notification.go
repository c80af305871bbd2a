package batches

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/schemas/object"
)

// storedEvents begins the names of events which say that an object was stored. AWS leaves
// out s3:.
const storedEvents = "ObjectCreated:"

// record is what a notification of S3 or MinIO says about one object.
type record struct {
	EventName string `json:"eventName"`
	S3        struct {
		Bucket struct {
			Name string `json:"name"`
		} `json:"bucket"`
		Object struct {
			Key string `json:"key"` // URL-encoded, with + for a space
		} `json:"object"`
	} `json:"s3"`
}

// notification reads the records of a notification which say that an object was stored.
// Others, such as those of deletions, and the event by which servers test a connection,
// announce nothing. A record that breaks a rule breaks the notification only where none is whole.
func (r *reader) notification(envelope fields) {
	r.Format, r.Count = Notification, -1
	var records []json.RawMessage
	if envelope.given("Records") && json.Unmarshal(envelope.of["Records"], &records) != nil {
		r.breaks("Records", "type", "must be a list of events")
	}
	whole := 0
	for i, text := range records {
		field := fmt.Sprintf("Records[%d]", i)
		var one record
		if json.Unmarshal(text, &one) != nil {
			r.breaks(field, "type", "must be an event of S3, whose s3 has the bucket and the object")
			r.Records = append(r.Records, text)
			continue
		}
		if !strings.HasPrefix(strings.TrimPrefix(one.EventName, "s3:"), storedEvents) {
			continue
		}
		r.Records = append(r.Records, text)
		key, err := url.QueryUnescape(one.S3.Object.Key)
		object := object.Name{Bucket: one.S3.Bucket.Name, Key: key}
		if err == nil {
			err = object.Check()
		}
		if err != nil {
			r.breaks(field+".s3", "object_name", err.Error())
		} else if whole++; whole == 1 {
			r.Object = object
		}
	}
	if whole > 0 { // it is split, and what breaks a rule is so alone
		r.broken = nil
	}
}

// Alone returns a notification of the one object that a record is about.
func Alone(record json.RawMessage) []byte {
	return append(append([]byte(`{"Records":[`), record...), "]}"...)
}

// DefaultKeyPattern matches keys such as tiktok/proj_xyz-brand-0/batch_001.json.
const DefaultKeyPattern = `^(?:(?P<platform>[^/]+)/)?(?P<job>[^/]+)/(?:batch_)?(?P<index>[0-9]+)\.[^/]*$`

// KeyPattern finds in the key of an object which batch it holds. The zero value finds it nowhere.
type KeyPattern struct{ re *regexp.Regexp }

// ParseKeyPattern reads a regular expression with the groups job and index, and maybe platform.
func ParseKeyPattern(text string) (KeyPattern, error) {
	re, err := regexp.Compile(text)
	if err == nil && (re.SubexpIndex("job") < 0 || re.SubexpIndex("index") < 0) {
		err = errors.New("it must have the groups (?P<job>…) and (?P<index>…)")
	}
	if err != nil {
		return KeyPattern{}, fmt.Errorf("invalid pattern of keys %q: %w", text, err)
	}
	return KeyPattern{re}, nil
}

// patternFields are the fields of announcements that groups of a pattern are about.
var patternFields = map[string]string{"job": "job_id", "index": "batch_index", "platform": "platform"}

// find returns what a key says, by the names of fields.
func (p KeyPattern) find(key string) map[string]string {
	found := map[string]string{}
	if p.re == nil {
		return found
	}
	if groups := p.re.FindStringSubmatch(key); groups != nil {
		for group, field := range patternFields {
			if i := p.re.SubexpIndex(group); i >= 0 {
				found[field] = groups[i]
			}
		}
	}
	return found
}

// Describe completes the announcement of a notification by what its object says: by the
// metadata, and where that says nothing, by the key. Names of metadata are those of an
// event's payload, in any case, with hyphens or underscores. It returns every rule that the
// object breaks.
func (a *Announcement) Describe(metadata map[string]string, pattern KeyPattern) []Invalid {
	said := fields{of: map[string]json.RawMessage{}, prefix: "metadata."}
	for field, text := range pattern.find(a.Object.Key) {
		said.say(field, text)
	}
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		said.say(strings.ReplaceAll(strings.ToLower(name), "-", "_"), metadata[name])
	}
	r := reader{Announcement: *a}
	if !said.has("job_id") || !said.has("batch_index") {
		r.breaks("Records[0].s3.object.key", "object_unnamed",
			"must match the pattern of keys (MILLRACE_S3_KEY_PATTERN), unless the object has the metadata job-id and batch-index")
		return r.broken
	}
	r.job(said)
	r.about(said)
	*a = r.Announcement
	return r.broken
}

// say sets a field to a text, which may be a number. An empty one says nothing.
func (f fields) say(name, text string) {
	if text == "" {
		return
	}
	form, err := json.Marshal(text)
	if number := name == "batch_index" || name == "content_count"; number && isDigits(text) {
		form = []byte(strings.TrimLeft(text, "0"))
		if len(form) == 0 {
			form = strconv.AppendInt(form, 0, 10)
		}
	}
	if err == nil {
		f.of[name] = form
	}
}
