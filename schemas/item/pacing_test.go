package item

import (
	"testing"
	"time"
)

// TestPacingWait: an error of a throttled host waits longer than another, each attempt twice as long, up to a bound.
func TestPacingWait(t *testing.T) {
	standard, err := Pacing{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	other, err := Pacing{Throttled: time.Minute, Network: 10 * time.Millisecond}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    Pacing
		name string
		want [3]time.Duration
	}{
		{standard, "", [3]time.Duration{2 * time.Second, 4 * time.Second, 2 * time.Minute}},
		{standard, "network", [3]time.Duration{2 * time.Second, 4 * time.Second, 2 * time.Minute}},
		{standard, "503", [3]time.Duration{5 * time.Second, 10 * time.Second, 5 * time.Minute}},
		{standard, "429", [3]time.Duration{10 * time.Second, 20 * time.Second, 10 * time.Minute}},
		{standard, "Throttled", [3]time.Duration{10 * time.Second, 20 * time.Second, 10 * time.Minute}},
		{standard, "no such one", [3]time.Duration{2 * time.Second, 4 * time.Second, 2 * time.Minute}},
		{other, "429", [3]time.Duration{time.Minute, 2 * time.Minute, time.Hour}},
		{other, "503", [3]time.Duration{5 * time.Second, 10 * time.Second, 5 * time.Minute}},
		{other, "", [3]time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 600 * time.Millisecond}},
	} {
		for i, attempts := range []int32{1, 2, 1 << 30} {
			if got := c.p.Wait(c.name, attempts); got != c.want[i] {
				t.Errorf("%q after %d attempts: %s, want %s", c.name, attempts, got, c.want[i])
			}
		}
	}
	if ClassOf("permanent") != ClassInvalid || ClassOf("invalid") != ClassInvalid {
		t.Error("an error that is for good would be tried again")
	}
}

// TestPacingRefuses: times that cannot be meant are errors.
func TestPacingRefuses(t *testing.T) {
	for _, p := range []Pacing{
		{Throttled: -time.Second},
		{Server: time.Microsecond},
		{Network: 25 * time.Hour},
		{Quiet: -1},
		{Delay: time.Minute},
		{Delay: time.Second, MostDelay: time.Millisecond},
	} {
		if _, err := p.WithDefaults(); err == nil {
			t.Errorf("%+v is taken", p)
		}
	}
}
