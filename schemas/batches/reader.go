package batches

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"

	"github.com/millrace-io/millrace/schemas/object"
)

// fields are the members of a JSON object. Prefix is what the names of its fields begin
// with in the whole message.
type fields struct {
	of     map[string]json.RawMessage
	prefix string
}

// has tells whether a field is there, if only as null.
func (f fields) has(name string) bool { _, ok := f.of[name]; return ok }

// given tells whether a field says anything.
func (f fields) given(name string) bool { return f.has(name) && string(f.of[name]) != "null" }

// object returns the members of a field that is an object, and none of any other.
func (f fields) object(name string) fields {
	inner := fields{prefix: f.prefix + name + "."}
	if json.Unmarshal(f.of[name], &inner.of) != nil {
		inner.of = nil
	}
	return inner
}

// reader reads one message, and notes the rules that it breaks.
type reader struct {
	Announcement
	broken []Invalid
}

func (r *reader) breaks(field, code, rule string) {
	r.broken = append(r.broken, Invalid{Field: field, Code: code, Rule: rule})
}

func (r *reader) event(payload fields) {
	r.Format = Event
	r.object("payload.minio_path", object.ParsePath(r.required(payload, "minio_path", 1+object.MaxBucket+object.MaxKey)))
	r.job(payload)
	r.about(payload)
}

func (r *reader) legacy(envelope fields) {
	r.Format = Legacy
	ref := envelope.object("data_ref")
	if ref.of == nil {
		r.breaks("data_ref", "type", "must be an object with bucket and path")
	} else {
		r.object("data_ref", object.Name{
			Bucket: r.required(ref, "bucket", object.MaxBucket), Key: r.required(ref, "path", object.MaxKey),
		})
	}
	if envelope.given("job_id") {
		r.Batch.Job = r.jobName(envelope)
		r.Batch.Index, _ = number[int32](r, envelope, "batch_index", math.MaxInt32)
	} else {
		r.Batch.Job = legacyPrefix + r.Object.String()
	}
	r.about(envelope)
}

func (r *reader) inline(envelope fields) {
	r.Format = Inline
	switch {
	case !envelope.given("items"):
		r.missing("items", ", unless payload.minio_path or data_ref names an object")
	case json.Unmarshal(envelope.of["items"], &r.Items) != nil:
		r.breaks("items", "type", "must be a list of items")
	case len(r.Items) > MaxItems:
		r.breaks("items", "too_many", fmt.Sprintf("must be at most %d", MaxItems))
	}
	r.job(envelope)
	r.about(envelope)
}

// object notes where the items are, unless its texts are broken already.
func (r *reader) object(field string, o object.Name) {
	r.Object = o
	if err := o.Check(); err != nil && len(r.broken) == 0 {
		r.breaks(field, "object_name", err.Error())
	}
}

// job reads the identity of a batch that has to have one.
func (r *reader) job(f fields) {
	r.Batch.Job = r.jobName(f)
	index, given := number[int32](r, f, "batch_index", math.MaxInt32)
	if r.Batch.Index = index; !given {
		r.missing(f.prefix+"batch_index", "")
	}
}

func (r *reader) jobName(f fields) string {
	job := r.required(f, "job_id", MaxJob)
	if strings.HasPrefix(job, legacyPrefix) {
		r.breaks(f.prefix+"job_id", "reserved", "must not begin with "+legacyPrefix+
			", which names batches that have no job")
	}
	return job
}

// about reads what else is said about a batch.
func (r *reader) about(f fields) {
	r.Project = r.text(f, "project_id", MaxText)
	r.Platform = r.text(f, "platform", MaxText)
	r.TaskType = r.text(f, "task_type", MaxText)
	r.Keyword = r.text(f, "keyword", MaxText)
	count, given := number[int](r, f, "content_count", MaxItems)
	if r.Count = count; !given {
		r.Count = -1
	}
}

func (r *reader) missing(field, unless string) {
	r.breaks(field, "missing", "is required"+unless)
}

// required reads a text that must be there. It returns an empty one when it notes a rule.
func (r *reader) required(f fields, name string, most int) string {
	before := len(r.broken)
	text := r.text(f, name, most)
	if text == "" && len(r.broken) == before {
		r.missing(f.prefix+name, " and must not be empty")
	}
	return text
}

// text reads a text that may be left out.
func (r *reader) text(f fields, name string, most int) (text string) {
	if !f.given(name) {
		return ""
	}
	switch field := f.prefix + name; {
	case json.Unmarshal(f.of[name], &text) != nil:
		r.breaks(field, "type", "must be a string")
	case len(text) > most:
		r.breaks(field, "length", fmt.Sprintf("must be at most %d bytes", most))
	case strings.ContainsFunc(text, unicode.IsControl):
		r.breaks(field, "control_character", "must not contain control characters")
	default:
		return text
	}
	return ""
}

// number reads a whole number from 0 on, and tells whether anything is given.
func number[N int | int32](r *reader, f fields, name string, most N) (n N, given bool) {
	if !f.given(name) {
		return 0, false
	}
	switch err := json.Unmarshal(f.of[name], &n); {
	case isWhole(f.of[name]) && (err != nil || n < 0 || n > most):
		r.breaks(f.prefix+name, "range", "must be from 0 to "+strconv.Itoa(int(most)))
	case err != nil:
		r.breaks(f.prefix+name, "type", "must be a whole number")
	}
	return n, true
}

// isWhole tells whether a JSON value is a whole number, of any size.
func isWhole(value json.RawMessage) bool {
	return isDigits(strings.TrimPrefix(string(value), "-"))
}
