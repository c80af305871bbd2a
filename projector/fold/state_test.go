package fold

import (
	"slices"
	"testing"
)

// TestTransitions: the table is whole. Each state can be reached, each leads to
// an end, each but the final ones goes on, and what the table does not know is
// refused.
func TestTransitions(t *testing.T) {
	reached, used := map[State]bool{Asking: true}, map[Event]bool{}
	for range states {
		for s := range State(states) {
			for e, next := range transitions[s] {
				used[e] = true
				reached[next] = reached[next] || reached[s]
			}
		}
	}
	names := map[string]bool{}
	for s := range State(states) {
		names[s.String()] = true
		if !reached[s] {
			t.Errorf("%s is never reached", s)
		}
		if final := len(transitions[s]) == 0; final != (s == Ended || s == Refused) {
			t.Errorf("%s has %d transitions", s, len(transitions[s]))
		}
		if !ends(s, nil) {
			t.Errorf("%s leads to no end", s)
		}
		for e := range Event(events) {
			want, known := transitions[s][e]
			if next, err := s.Next(e); (err == nil) != known || known && next != want || !known && next != s {
				t.Errorf("%s while %s leads to %s, %v", e, s, next, err)
			}
		}
	}
	for e := range Event(events) {
		names[e.String()] = true
		if !used[e] {
			t.Errorf("%s happens in no state", e)
		}
	}
	if len(names) != states+events {
		t.Errorf("%d names for %d states and %d events", len(names), states, events)
	}
}

// ends tells whether a final state can be reached.
func ends(s State, seen []State) bool {
	if len(transitions[s]) == 0 {
		return true
	}
	for _, next := range transitions[s] {
		if !slices.Contains(seen, next) && ends(next, append(seen, s)) {
			return true
		}
	}
	return false
}
