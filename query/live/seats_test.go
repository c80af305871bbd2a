package live

import (
	"testing"
)

// TestNobodyIsKeptOut: a caller who has all seats loses its newest ones to others, until
// nobody has two more than one who wants a seat.
func TestNobodyIsKeptOut(t *testing.T) {
	s := NewSeats(6)
	lost := make(chan string, 6)
	take := func(caller, name string) *Seat {
		t.Helper()
		seat, ok := s.Take(caller, func() { lost <- name })
		if !ok {
			t.Fatalf("%s has no seat for %s", caller, name)
		}
		return seat
	}
	refused := func(caller string) {
		t.Helper()
		if _, ok := s.Take(caller, nil); ok {
			t.Errorf("%s has a seat too many", caller)
		}
	}
	var first *Seat
	for _, name := range []string{"1", "2", "3", "4", "5", "6"} {
		if seat := take("greedy", name); name == "1" {
			first = seat
		}
	}
	refused("greedy")
	for _, step := range []struct{ caller, loses string }{{"other", "6"}, {"third", "5"}, {"other", "4"}} {
		take(step.caller, step.caller)
		if name := <-lost; name != step.loses {
			t.Errorf("%s gets seat %s, want %s", step.caller, name, step.loses)
		}
	}
	refused("other") // greedy has 3, other 2
	refused("greedy")
	take("third", "third")
	if name := <-lost; name != "3" {
		t.Errorf("third gets seat %s, want 3", name)
	}
	for _, caller := range []string{"fourth", "fifth", "sixth"} { // greedy, other and third have 2
		take(caller, caller)
		if name := <-lost; name != "2" && name != "other" && name != "third" {
			t.Errorf("%s gets seat %s", caller, name)
		}
	}
	refused("seventh") // all have 1
	first.Leave()
	first.Leave()
	if n := s.Taken(); n != 5 {
		t.Errorf("%d seats are taken, want 5", n)
	}
	take("greedy", "7")
	if len(lost) > 0 {
		t.Errorf("%s is lost while there is room", <-lost)
	}
}
