package event

import (
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// Decode reads one JSON event into r, checks every rule that needs no clock
// and no pipeline, and derives the URL's hash and domain. It does not
// allocate once r has been used. Keys that are not fields of an event are
// passed over, and Others has them; of a key that stands twice the last one counts, and null is
// the same as absent. content_url is another name of article_url. Of an event that
// breaks several rules it returns the first; Faults has all of them.
func Decode(data []byte, r *Record) *Invalid {
	r.reset()
	if len(data) > MaxSize {
		r.fault(errTooLarge)
		return errTooLarge
	}
	if !utf8.Valid(data) {
		r.fault(errUTF8)
		return errUTF8
	}
	d := &r.decoder
	*d = decoder{scanner: scanner{data: data, buf: d.buf[:0]}, rec: r, others: d.others[:0]}
	if !d.event() {
		r.faults = append(r.faults[:0], errJSON)
		return errJSON
	}
	r.check()
	if len(r.faults) > 0 {
		return r.faults[0]
	}
	return nil
}

const absentTime = math.MinInt64

// MaxScore bounds the magnitude of a quality score: sums of larger ones are not
// finite in the end, or lose all smaller ones.
const MaxScore = 1e9

type decoder struct {
	scanner
	rec        *Record
	contentURL []byte
	present    [len(viewFields)]bool // of Misspelt: which of viewFields there are,
	spellings  []spelling            // and what is nearly one of them
	others     [][]byte              // keys that are not fields of an event
}

// event reads the fields, and returns false when the text is no JSON object.
func (d *decoder) event() bool {
	d.rec.OccurredAt = absentTime
	if !d.object((*decoder).field) || !d.end() {
		return false
	}
	if len(d.rec.ArticleURL) == 0 {
		d.rec.ArticleURL = d.contentURL
	}
	if len(d.rec.TraceID) == 0 && checkName("trace_id", d.rec.Meta.TraceID, MaxName, false) == nil {
		d.rec.TraceID = d.rec.Meta.TraceID
	}
	if d.rec.OccurredAt == absentTime {
		d.rec.fault(missing("occurred_at"))
	}
	return true
}

// object reads an object and hands each key to member, which reads the value.
func (d *decoder) object(member func(d *decoder, key []byte) bool) bool {
	if !d.next('{') {
		return false
	}
	if d.next('}') {
		return true
	}
	for {
		d.space()
		key, ok := d.text()
		if !ok || !d.next(':') {
			return false
		}
		d.space()
		if !member(d, key) {
			return false
		}
		if d.next(',') {
			continue
		}
		return d.next('}')
	}
}

func (d *decoder) field(key []byte) bool {
	r := d.rec
	switch string(key) {
	case "article_url":
		return d.str(&r.ArticleURL, "article_url")
	case "content_url":
		return d.str(&d.contentURL, "content_url")
	case "source_name":
		return d.str(&r.SourceName, "source_name")
	case "stage":
		return d.str(&r.Stage, "stage")
	case "occurred_at":
		return d.time()
	case "service_name":
		return d.str(&r.ServiceName, "service_name")
	case "idempotency_key":
		return d.str(&r.IdempotencyKey, "idempotency_key")
	case "trace_id":
		return d.str(&r.TraceID, "trace_id")
	case "canonical_url":
		return d.str(&r.CanonicalURL, "canonical_url")
	case "metadata_schema_version":
		return d.schemaVersion()
	case "metadata":
		return d.metadata()
	}
	d.other(key)
	return d.skip(0)
}

func (d *decoder) str(dst *[]byte, field string) bool {
	switch d.peek() {
	case '"':
		s, ok := d.text()
		*dst = s
		return ok
	case 'n':
		*dst = nil
	default:
		d.rec.fault(notString(field))
	}
	return d.skip(0)
}

func (d *decoder) time() bool {
	var text []byte
	if !d.str(&text, "occurred_at") {
		return false
	}
	if len(text) == 0 {
		d.rec.OccurredAt = absentTime
		return true
	}
	at, err := parseTime(text)
	if err != nil {
		d.rec.fault(err)
	}
	d.rec.OccurredAt = at
	return true
}

func (d *decoder) schemaVersion() bool {
	start := d.at
	if !d.skip(0) {
		return false
	}
	raw := asString(d.data[start:d.at])
	if raw == "null" {
		d.rec.MetadataSchemaVersion = 1
		return true
	}
	v, err := strconv.ParseUint(raw, 10, 16)
	if err != nil || v == 0 {
		d.rec.fault(errSchemaVersion)
	}
	d.rec.MetadataSchemaVersion = uint16(v)
	return true
}

func (d *decoder) metadata() bool {
	r, start := d.rec, d.at
	r.Metadata, r.Meta = nil, Metadata{QualityScore: math.NaN(), Topics: r.Meta.Topics[:0]}
	switch d.peek() {
	case '{':
		ok := d.object((*decoder).metadataField)
		r.Metadata = d.data[start:d.at]
		return ok
	case 'n':
	default:
		d.rec.fault(errMetadataObject)
	}
	return d.skip(0)
}

func (d *decoder) metadataField(key []byte) bool {
	m := &d.rec.Meta
	switch string(key) {
	case "quality_score":
		return d.number(&m.QualityScore)
	case "topics":
		return d.texts(&m.Topics)
	case "model_version":
		return d.maybeText(&m.ModelVersion)
	case "content_type":
		return d.maybeText(&m.ContentType)
	case "channel":
		return d.maybeText(&m.Channel)
	case "is_reclassification":
		return d.truth(&m.IsReclassification)
	case "is_duplicate":
		return d.truth(&m.IsDuplicate)
	case "backfilled":
		return d.truth(&m.Backfilled)
	case "trace_id":
		return d.maybeText(&m.TraceID)
	}
	return d.skip(1)
}

// The four below read a metadata field that a view uses. A value of another
// type, or a number beyond MaxScore, is passed over and leaves the field absent.

func (d *decoder) maybeText(dst *[]byte) bool {
	*dst = nil
	if d.peek() != '"' {
		return d.skip(1)
	}
	s, ok := d.text()
	*dst = s
	return ok
}

func (d *decoder) number(dst *float64) bool {
	*dst = math.NaN()
	start := d.at
	c := d.peek()
	if !d.skip(1) {
		return false
	}
	if c != '-' && (c < '0' || c > '9') {
		return true
	}
	if f, err := strconv.ParseFloat(asString(d.data[start:d.at]), 64); err == nil && math.Abs(f) <= MaxScore {
		*dst = f
	}
	return true
}

func (d *decoder) truth(dst *bool) bool {
	*dst = d.peek() == 't'
	return d.skip(1)
}

// texts reads an array of strings. With anything else in it, it counts as
// absent.
func (d *decoder) texts(dst *[][]byte) bool {
	*dst = (*dst)[:0]
	if d.peek() != '[' {
		return d.skip(1)
	}
	d.at++
	if d.next(']') {
		return true
	}
	pure := true
	for {
		d.space()
		if d.peek() == '"' {
			s, ok := d.text()
			if !ok {
				return false
			}
			*dst = append(*dst, s)
		} else {
			pure = false
			if !d.skip(2) {
				return false
			}
		}
		if d.next(',') {
			continue
		}
		if !pure {
			*dst = (*dst)[:0]
		}
		return d.next(']')
	}
}

// asString views bytes that nothing changes meanwhile as a string.
func asString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
