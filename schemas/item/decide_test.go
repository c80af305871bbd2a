package item

import (
	"fmt"
	"testing"
)

// TestTable holds every move from every status, asked for by one who gives no name
// about whatever generation.
func TestTable(t *testing.T) {
	const (
		x    = -1 // forbidden
		same = -2 // repeated
	)
	// An item is new for the first time, new again, started, done, failed, and
	// failed without an attempt left.
	items := []State{
		{Status: New, Generation: 1, Allowed: 3},
		{Status: New, Generation: 3, Attempts: 1, Allowed: 3},
		{Status: Started, Generation: 2, Attempts: 1, Allowed: 3},
		{Status: Done, Generation: 2, Attempts: 1, Allowed: 3},
		{Status: Failed, Generation: 2, Attempts: 1, Allowed: 3},
		{Status: Failed, Generation: 6, Attempts: 3, Allowed: 3},
	}
	s, d, f, n := int(Started), int(Done), int(Failed), int(New)
	for move, want := range map[Move][6]int{
		Start:    {s, s, x, x, x, x},
		Complete: {x, x, d, same, x, x},
		Fail:     {f, f, f, x, same, same},
		Cancel:   {f, f, f, x, same, same},
		Retry:    {x, same, x, x, n, n},
		Release:  {x, same, n, x, x, x},
		Again:    {x, same, n, x, x, same},
		Expire:   {x, same, n, x, x, same},
		Register: {x, x, x, x, x, x},
	} {
		for i, it := range items {
			t.Run(fmt.Sprintf("%s of %s %d", move, it.Status, i), func(t *testing.T) {
				after, outcome := Decide(it, Ask{Move: move})
				switch want[i] {
				case x:
					if outcome != Forbidden || after != it {
						t.Errorf("%s, %+v", outcome, after)
					}
				case same:
					if outcome != Repeated || after != it {
						t.Errorf("%s, %+v", outcome, after)
					}
				default:
					if outcome != Changed || int(after.Status) != want[i] {
						t.Errorf("%s, %+v", outcome, after)
					}
				}
			})
		}
	}
}

func TestDecide(t *testing.T) {
	ready := State{Status: New, Generation: 1}
	again := State{Status: New, Generation: 3, Attempts: 1}
	taken := State{Status: Started, Generation: 2, Attempts: 1, Worker: "a"}
	nameless := State{Status: Started, Generation: 2, Attempts: 1}
	last := State{Status: Started, Generation: 6, Attempts: 3, Allowed: 3, Worker: "a"}
	dead := State{Status: Failed, Generation: 6, Attempts: 3, Allowed: 3}
	lapsed := State{Status: New, Generation: 3, Attempts: 1, Worker: "a", Lapsed: true}
	lost := State{Status: Failed, Generation: 2, Attempts: 1, Allowed: 1, Worker: "a", Lapsed: true}
	late := State{Status: Done, Generation: 3, Attempts: 1, Worker: "a"}
	for name, c := range map[string]struct {
		item    State
		ask     Ask
		outcome Outcome
		after   State
	}{
		"a start counts, and makes a generation": {ready, Ask{Move: Start, Worker: "a"}, Changed, taken},
		"a start of the generation meant":        {ready, Ask{Move: Start, Worker: "a", Generation: 1}, Changed, taken},
		"its repeat": {
			taken,
			Ask{Move: Start, Worker: "a", Generation: 1},
			Repeated,
			taken,
		},
		"another's start of it":                 {taken, Ask{Move: Start, Worker: "b", Generation: 1}, Fenced, taken},
		"another's start":                       {taken, Ask{Move: Start, Worker: "b"}, Forbidden, taken},
		"a nameless start of what somebody has": {taken, Ask{Move: Start}, Forbidden, taken},
		"a second start without a name":         {nameless, Ask{Move: Start}, Forbidden, nameless},
		"one of the generation meant":           {nameless, Ask{Move: Start, Generation: 1}, Fenced, nameless},
		"a start of an old readiness":           {again, Ask{Move: Start, Generation: 1}, Fenced, again},
		"a start of what is taken": {
			taken,
			Ask{Move: Start, Worker: "a", Generation: 2},
			Forbidden,
			taken,
		},

		"done by whoever has it": {
			taken,
			Ask{Move: Complete, Generation: 2, Worker: "a"},
			Changed,
			State{Done, 2, 1, 0, "a", false},
		},
		"done by nobody in particular": {taken, Ask{Move: Complete}, Changed, State{Done, 2, 1, 0, "a", false}},
		"done by another":              {taken, Ask{Move: Complete, Worker: "b"}, Fenced, taken},
		"done by one who had it":       {again, Ask{Move: Complete, Generation: 2}, Fenced, again},
		"done again": {
			State{Done, 2, 1, 0, "a", false},
			Ask{Move: Complete, Generation: 2},
			Repeated,
			State{Done, 2, 1, 0, "a", false},
		},
		"done twice, then by another": {
			State{Done, 2, 1, 0, "a", false},
			Ask{Move: Complete, Worker: "b"},
			Repeated,
			State{Done, 2, 1, 0, "a", false},
		},
		"fail before it is started": {ready, Ask{Move: Fail}, Changed, State{Failed, 1, 0, 0, "", false}},
		"cancel of what another has": {
			taken,
			Ask{Move: Cancel, Worker: "operator"},
			Changed,
			State{Failed, 2, 1, 0, "a", false},
		},
		"a release does not count": {taken, Ask{Move: Release, Generation: 2}, Changed, State{New, 3, 0, 0, "a", false}},
		"its repeat is none of ours": {
			State{New, 3, 0, 0, "a", false},
			Ask{Move: Release, Generation: 2},
			Repeated,
			State{New, 3, 0, 0, "a", false},
		},
		"again counts":                  {taken, Ask{Move: Again, Generation: 2}, Changed, State{New, 3, 1, 0, "a", false}},
		"again, the last time":          {last, Ask{Move: Again, Generation: 6}, Changed, State{Failed, 6, 3, 3, "a", false}},
		"the end of the last lease":     {last, Ask{Move: Expire}, Changed, State{Failed, 6, 3, 3, "a", false}},
		"a release of the last attempt": {last, Ask{Move: Release}, Changed, State{New, 7, 2, 3, "a", false}},
		"a retry revives the dead":      {dead, Ask{Move: Retry}, Changed, State{New, 7, 3, 6, "", false}},
		"a retry of the living": {
			State{Failed, 2, 1, 3, "", false},
			Ask{Move: Retry},
			Changed,
			State{New, 3, 1, 3, "", false},
		},
		"done after the lease": {
			lapsed,
			Ask{Move: Complete, Generation: 2, Worker: "a"},
			Changed,
			State{Done, 3, 1, 0, "a", true},
		},
		"the repeat of done after the lease":  {late, Ask{Move: Complete, Generation: 2}, Repeated, late},
		"done after the lease by another":     {lapsed, Ask{Move: Complete, Generation: 2, Worker: "b"}, Fenced, lapsed},
		"done after an earlier lease":         {lapsed, Ask{Move: Complete, Generation: 1}, Fenced, lapsed},
		"done after the lease, not saying of": {lapsed, Ask{Move: Complete}, Forbidden, lapsed},
		"fail after the lease":                {lapsed, Ask{Move: Fail, Generation: 2}, Fenced, lapsed},
		"done after it was given back":        {again, Ask{Move: Complete, Generation: 2}, Fenced, again},
		"done after the last lease": {
			lost,
			Ask{Move: Complete, Generation: 2},
			Changed,
			State{Done, 2, 1, 1, "a", true},
		},
		"done after it was said to have failed": {dead, Ask{Move: Complete, Generation: 6}, Forbidden, dead},
		"the end of a lease that was to be the last": {
			taken,
			Ask{Move: Expire, Generation: 2, Final: true},
			Changed,
			State{Failed, 2, 1, 0, "a", false},
		},
		"takeover of the taking meant": {
			taken,
			Ask{Move: Start, Worker: "b", Generation: 2, Takeover: true},
			Changed,
			State{Started, 3, 2, 0, "b", false},
		},
		"takeover after another": {
			taken,
			Ask{Move: Start, Worker: "b", Generation: 1, Takeover: true},
			Fenced,
			taken,
		},
		"takeover of what is not taken": {
			ready,
			Ask{Move: Start, Worker: "b", Generation: 1, Takeover: true},
			Forbidden, ready,
		},
		"takeover of whatever it is":  {taken, Ask{Move: Start, Worker: "b", Takeover: true}, Forbidden, taken},
		"takeover is a kind of start": {taken, Ask{Move: Complete, Generation: 2, Takeover: true}, Forbidden, taken},
	} {
		t.Run(name, func(t *testing.T) {
			if after, outcome := Decide(c.item, c.ask); outcome != c.outcome || after != c.after {
				t.Errorf("%s, %+v; want %s, %+v", outcome, after, c.outcome, c.after)
			}
		})
	}
}

// TestNames holds that names and values are each other's.
func TestNames(t *testing.T) {
	for s := New; s <= Failed; s++ {
		if got, ok := ParseStatus(s.String()); !ok || got != s {
			t.Errorf("status %d: %v, %v", s, got, ok)
		}
	}
	for _, wrong := range []string{"", "New", "started "} {
		if _, ok := ParseStatus(wrong); ok {
			t.Error(wrong)
		}
	}
}
