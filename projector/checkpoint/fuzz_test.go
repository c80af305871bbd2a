package checkpoint

import (
	"encoding/json"
	"testing"
)

// FuzzRecord: what is read as a position never has its end before its begin,
// and is written and read the same again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"from":1,"to":2,"owner":"a","at":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"from":1,"to":"2","closing":true}`))
	f.Add([]byte(`{"from":2,"to":1}`))
	f.Add([]byte(`{"from":-1,"to":1e30}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse(data)
		if err != nil {
			return
		}
		if r.To < r.From {
			t.Fatalf("%q: %+v", data, r)
		}
		value, err := json.Marshal(r)
		if err != nil {
			return // a time beyond the years that can be written
		}
		back, err := Parse(value)
		if back.At = r.At; err != nil || back != r {
			t.Fatalf("%q: %+v is read as %+v, %v", data, r, back, err)
		}
	})
}
