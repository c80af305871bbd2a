package event

import (
	"bytes"
	"encoding/json"
)

var errMark = &Invalid{"metadata", "backfill", "cannot be changed to say backfilled"}

// MarkBackfilled returns the text of an event, which r was decoded from, with
// metadata.backfilled set, so that it may be of any age. All other values stay
// as they are, and so does its identity. R is then of the new text; with an
// error, such as for an event as large as events may be, it is of nothing.
func MarkBackfilled(text []byte, r *Record) ([]byte, *Invalid) {
	id := r.Identity()
	var fields, metadata map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return nil, errMark
	}
	if m := fields["metadata"]; m != nil && json.Unmarshal(m, &metadata) != nil {
		return nil, errMark
	}
	if metadata == nil { // absent, or null
		metadata = map[string]json.RawMessage{}
	}
	metadata["backfilled"] = json.RawMessage("true")
	var err error
	if fields["metadata"], err = marshal(metadata); err != nil {
		return nil, errMark
	}
	if text, err = marshal(fields); err != nil {
		return nil, errMark
	}
	if invalid := Decode(text, r); invalid != nil {
		return nil, invalid
	}
	if r.Identity() != id {
		return nil, errMark
	}
	return text, nil
}

// marshal leaves <, > and & as they are, which must not make an event longer
// than it may be.
func marshal(v map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
