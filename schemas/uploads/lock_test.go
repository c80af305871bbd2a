package uploads

import (
	"testing"
	"time"
)

// TestLocks: a lease is twice the mean, between its bounds, which a lease that is set moves apart; and slow items of late
// lengthen it.
func TestLocks(t *testing.T) {
	l, err := Locks{Floor: 10 * time.Second, Cap: 100 * time.Second}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	const s = time.Second
	for _, c := range []struct {
		set  time.Duration
		of   []Held
		want time.Duration
	}{
		{30 * s, []Held{{Mean: s}}, 10 * s},
		{30 * s, []Held{{Mean: 20 * s}}, 40 * s},
		{30 * s, []Held{{Mean: 200 * s}}, 100 * s},
		{30 * s, []Held{{Mean: s, Least: 15 * s}}, 15 * s},
		{30 * s, []Held{{Mean: s}, {Mean: 7 * s}}, 14 * s},
		{30 * s, []Held{{Mean: s}, {}}, 30 * s},      // nothing is known of one
		{30 * s, []Held{{Least: 60 * s}}, 60 * s},    // but that its items outlive their lease
		{5 * s, []Held{{Mean: s}}, 5 * s},            // a queue may have a shorter one
		{500 * s, []Held{{Mean: 200 * s}}, 400 * s},  // or a longer one
		{500 * s, []Held{{Mean: 2000 * s}}, 500 * s}, // which bounds it then
		{30 * s, []Held{{Mean: 9 * s, Least: 0}}, 18 * s},
	} {
		if got := l.Lease(c.set, c.of); got != c.want {
			t.Errorf("%s %v: %s, want %s", c.set, c.of, got, c.want)
		}
	}
	for _, wrong := range []Locks{{Floor: time.Millisecond}, {Floor: 10 * s, Cap: s}, {Cap: 25 * time.Hour}} {
		if _, err := wrong.WithDefaults(); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
}
