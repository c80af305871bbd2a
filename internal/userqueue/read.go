package userqueue

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/millrace-io/millrace/internal/nearest"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/stream"
)

// maxFaults bounds how many broken rules of a request are told.
const maxFaults = 100

// The members of a request that adds items, of each item, and of a report.
var (
	requestMembers = membersOf(reflect.TypeFor[enqueue]())
	itemMembers    = membersOf(reflect.TypeFor[EnqueueItem]())
	reportMembers  = membersOf(reflect.TypeFor[stream.Report]())
)

func membersOf(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// readEnqueue reads a request that adds items, and returns the rules that it breaks: all
// of them, as far as it can be read.
func readEnqueue(data []byte) (in enqueue, broken []item.Invalid) {
	err := json.Unmarshal(data, &in)
	if err != nil && !json.Valid(data) {
		return in, []item.Invalid{{Field: "request", Code: "json", Rule: "must be one JSON object: " + err.Error()}}
	}
	broken = unknownMembers(data)
	if err != nil {
		broken = append(broken, mistyped(err))
	} else {
		broken = append(broken, CheckRequest(data, in.Items)...)
	}
	return in, broken[:min(len(broken), maxFaults)]
}

// mistyped is the rule that a member breaks which is of another type.
func mistyped(err error) item.Invalid {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) { // of a time
		return item.Invalid{Field: "items.run_at", Code: "type", Rule: err.Error()}
	}
	field := wrong.Field
	if field == "" {
		field = "request"
	}
	want := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Int16: "a whole number", reflect.Int32: "a whole number",
		reflect.Int64: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "a JSON object",
	}[wrong.Type.Kind()]
	return item.Invalid{Field: field, Code: "type", Rule: fmt.Sprintf("must be %s, and is a %s", want, wrong.Value)}
}

// unknownMembers lists members of valid JSON that nothing reads.
func unknownMembers(data []byte) (broken []item.Invalid) {
	members := func(data []byte, place string, known []string) map[string]json.RawMessage {
		return unknownIn(data, place, known, &broken)
	}
	var items []json.RawMessage
	_ = json.Unmarshal(members(data, "", requestMembers)["items"], &items)
	for i, it := range items {
		members(it, fmt.Sprintf("items[%d].", i), itemMembers)
	}
	return broken
}

// unknownIn returns the members of a JSON object, and adds those that nothing reads to
// broken.
func unknownIn(data []byte, place string, known []string, broken *[]item.Invalid) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(data, &object) // what is no object is mistyped
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(*broken) < maxFaults && !slices.Contains(known, name) {
			*broken = append(*broken,
				item.Invalid{Field: place + name, Code: "field_unknown", Rule: nearest.Unknown(name, known)})
		}
	}
	return object
}
