package funnel

import (
	"encoding/json"
	"testing"
)

// TestCheckpointForms: every form that has been written is read, and what is no
// checkpoint is refused.
func TestCheckpointForms(t *testing.T) {
	for text, want := range map[string]Checkpoint{
		`{"from":1,"to":2}`:                             {From: 1, To: 2},
		`{"from":4,"to":4,"owner":"a","caught_up":9}`:   {From: 4, To: 4, Owner: "a", CaughtUp: 9},
		`{"from":1,"to":"7","closing":true}`:            {From: 1, To: 7, Closing: true},
		`{"from":1,"to":7,"delta":"d","unknown":[1,2]}`: {From: 1, To: 7, Digest: "d"},
	} {
		if got, err := ParseCheckpoint([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		``, `garbage`, `null`, `7`, `{}`, `{"from":1}`, `{"to":1}`, `{"from":2,"to":1}`, `{"from":1,"to":"2"}`,
		`{"from":-1,"to":1}`, `{"stream":"EVENTS","seq":7}`,
		`{"from":1,"to":2,"known":{"at":2,"identities":"1-00000000000000000000000000000007"}}`,
	} {
		if got, err := ParseCheckpoint([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

// FuzzCheckpoint: a checkpoint that is read never has its end before its begin,
// and is the same after it is written and read again.
func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte(`{"from":1,"to":2,"owner":"a","at":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"from":1,"to":"2","closing":true}`))
	f.Add([]byte(`{"from":2,"to":1}`))
	f.Add([]byte(`{"from":2,"to":3,"known":{"at":2,"identities":"1-00000000000000000000000000000007"}}`))
	f.Add([]byte(`{"from":-1,"to":1e30}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseCheckpoint(data)
		if err != nil {
			return
		}
		if c.To < c.From {
			t.Fatalf("%q: %+v", data, c)
		}
		value, err := json.Marshal(c)
		if err != nil {
			return // a time beyond the years that can be written
		}
		back, err := ParseCheckpoint(value)
		if back.At = c.At; err != nil || back != c {
			t.Fatalf("%q: %+v is read as %+v, %v", data, c, back, err)
		}
	})
}
