package source

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Priorities are how urgent it is to crawl a source, the least first.
var Priorities = []string{"low", "normal", "high", "critical"}

// Defaults of fields that are left out.
const (
	DefaultRateLimit = 10
	DefaultMaxDepth  = 1
	DefaultPriority  = "normal"
)

// Fields are what people say about a source.
type Fields struct {
	Name      string          `json:"name" doc:"What people call it, 1 to 255 bytes" example:"Example News"`
	URL       string          `json:"url" doc:"Where its crawl begins" example:"https://example.com"`
	RateLimit int             `json:"rate_limit" doc:"Requests a second that it allows" minimum:"1" maximum:"1000" example:"10"`
	MaxDepth  int             `json:"max_depth" doc:"How many links away from its URL it is crawled" minimum:"1" maximum:"100" example:"3"`
	Enabled   bool            `json:"enabled" doc:"Whether it is crawled"`
	Selectors json.RawMessage `json:"selectors" doc:"Where its pages have their parts, by the name of the part: a JSON object"`
	Priority  string          `json:"priority" doc:"How urgent its crawls are" enum:"low,normal,high,critical"`
}

// CrawlSource is a source as it is stored. The sources that events name are others.
type CrawlSource struct {
	ID uuid.UUID `json:"id" format:"uuid"`
	Fields
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at" doc:"When a field was last changed"`
}

// New returns the fields of a source of which nothing is said.
func New() Fields {
	return Fields{
		RateLimit: DefaultRateLimit, MaxDepth: DefaultMaxDepth, Enabled: true, Selectors: json.RawMessage("{}"),
		Priority: DefaultPriority,
	}
}

// Names are the names of the fields, in their order.
var Names = names()

func names() (all []string) {
	for f := range reflect.TypeFor[Fields]().Fields() {
		all = append(all, f.Tag.Get("json"))
	}
	return all
}

// Field returns the value of a field by its name.
func (f Fields) Field(name string) any {
	return reflect.ValueOf(f).Field(slices.Index(Names, name)).Interface()
}

// With returns fields of which one is as in others.
func (f Fields) With(name string, others Fields) Fields {
	i := slices.Index(Names, name)
	reflect.ValueOf(&f).Elem().Field(i).Set(reflect.ValueOf(others).Field(i))
	return f
}

// Changed lists the fields in which two sources differ, in their order.
func Changed(from, to Fields) (changed []string) {
	for _, name := range Names {
		a, b := from.Field(name), to.Field(name)
		if name == "selectors" {
			if !sameJSON(from.Selectors, to.Selectors) {
				changed = append(changed, name)
			}
		} else if a != b {
			changed = append(changed, name)
		}
	}
	return changed
}

// sameJSON tells whether two documents say the same: spaces and the order of an
// object's members do not count.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, y := decoded(a), decoded(b)
	return x != nil && reflect.DeepEqual(x, y)
}

func decoded(document json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber() // digits beyond the precision of a float count
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// ParseID reads the id of a source in its usual form, with hyphens.
func ParseID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(uuid.Nil.String())
}

// ReadID reads the id in a field of a request. The error is an *Invalid.
func ReadID(field, text string, id *uuid.UUID) error {
	var ok bool
	if *id, ok = ParseID(text); !ok {
		return bad(BadID(field))
	}
	return nil
}

// BadID says which rule a text breaks that is no id.
func BadID(field string) Invalid {
	return Invalid{Field: field, Code: "uuid", Rule: "must be a UUID, such as 0199f0a2-7c1e-7000-8000-000000000001"}
}
