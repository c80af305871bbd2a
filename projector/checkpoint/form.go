package checkpoint

import (
	"encoding/json"
	"fmt"
)

// plain is a record as it is written, and closing is one of a group that ends:
// so written that programs which know of no end take it for none.
type (
	plain   Record
	closing struct {
		plain
		To uint64 `json:"to,string"`
	}
)

// MarshalJSON writes the record.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.Closing {
		return json.Marshal(closing{plain(r), r.To})
	}
	return json.Marshal(plain(r))
}

// UnmarshalJSON reads a record.
func (r *Record) UnmarshalJSON(value []byte) error {
	var form struct{ Closing bool }
	if err := json.Unmarshal(value, &form); err != nil {
		return err
	}
	if !form.Closing {
		return json.Unmarshal(value, (*plain)(r))
	}
	var c closing
	if err := json.Unmarshal(value, &c); err != nil {
		return err
	}
	*r = Record(c.plain)
	r.To = c.To
	return nil
}

// Parse reads a record as a bucket has it.
func Parse(value []byte) (r Record, err error) {
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("%.100q is none: %w", value, err)
	}
	if r.To < r.From {
		return r, fmt.Errorf("%.100q ends before it begins", value)
	}
	return r, nil
}
