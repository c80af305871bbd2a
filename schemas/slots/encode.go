package slots

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// record is a layout as it is written. A layout that has never been changed is
// written as a number alone, which is all that earlier releases can read. They
// refuse 0, and show the rest.
type record struct {
	SlotGroups uint32  `json:"slot_groups"`
	Note       string  `json:"note,omitempty"`
	Epochs     []Epoch `json:"epochs,omitempty"`
	Next       uint32  `json:"next,omitempty"`
}

const note = "the number of slot groups was changed, which takes a newer millrace to know"

// Encode returns the layout in its written form.
func (l Layout) Encode() ([]byte, error) {
	r := record{Note: note, Epochs: l.Epochs, Next: l.Next}
	if len(l.Epochs) == 1 && l.Next == 0 {
		r = record{SlotGroups: l.Epochs[0].Groups}
	}
	return json.Marshal(r)
}

// Parse reads a layout. Fields that it does not know are an error: a newer
// program has written something that is not to be left out.
func Parse(value []byte) (Layout, error) {
	var r record
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Layout{}, fmt.Errorf("layout %.200q is none: %w", value, err)
	}
	l := Layout{Epochs: r.Epochs, Next: r.Next}
	if len(r.Epochs) == 0 {
		l.Epochs = []Epoch{{Groups: r.SlotGroups}}
	}
	if err := l.check(); err != nil {
		return Layout{}, fmt.Errorf("layout %.200q is none: %w", value, err)
	}
	return l, nil
}
