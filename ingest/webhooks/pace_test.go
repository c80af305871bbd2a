package webhooks

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace-io/millrace/schemas/item"
)

var (
	fine  = Answer{Status: 200}
	slow  = Answer{Status: 429}
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	errRandom = errors.New("reset")
)

// standard is the pacing that an operator says nothing about.
func standard(t *testing.T) item.Pacing {
	t.Helper()
	p, err := item.Pacing{}.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// round begins as many requests as there may be, ends all of them alike, and returns how many there were.
func round(p *Pace, a Answer, now time.Time) int {
	n, ticket, _ := p.Begin(1000, now)
	for range n {
		p.End(ticket, a, now)
	}
	return n
}

// TestPace (5): requests at a time double until the host cannot keep up, halve once for each round that fails, and grow
// by one for each that does not.
func TestPace(t *testing.T) {
	p := NewPace(40, standard(t))
	for i, want := range []int{1, 2, 4, 8, 16, 32, 40, 40} {
		if n := round(p, fine, start); n != want {
			t.Errorf("%d requests in round %d, want %d", n, i, want)
		}
	}
	for i, want := range []int{40, 20, 10, 5, 2, 1, 1} {
		if n := round(p, slow, start); n != want {
			t.Errorf("%d requests in round %d that fails, want %d", n, i, want)
		}
	}
	now := start
	for i, want := range []time.Duration{200, 400, 800, 1600, 3200, 6400, 10_000, 10_000} {
		n, _, wait := p.Begin(1, now)
		if n != 0 || wait != want*time.Millisecond {
			t.Errorf("%d requests after %d failures of one, and then a wait of %s, want %dms", n, i+1, wait, want)
		}
		now = now.Add(wait)
		if n := round(p, slow, now); n != 1 {
			t.Errorf("%d requests behind the pause", n)
		}
	}
	now = now.Add(time.Hour)
	for range 6 { // each halves the pause
		if n := round(p, fine, now); n != 1 {
			t.Errorf("%d requests while there are pauses", n)
		}
		now = now.Add(time.Hour)
	}
	if n := round(p, fine, now); n < 2 || n > 8 {
		t.Errorf("%d requests when it answers again", n)
	}
}

// TestPaceRetryAfter (5): no request begins before a host allows it, whatever else it answers.
func TestPaceRetryAfter(t *testing.T) {
	p, after := NewPace(8, standard(t)), 90*time.Second
	for range 4 {
		round(p, fine, start)
	}
	n, ticket, _ := p.Begin(8, start)
	p.End(ticket, Answer{Status: 503, RetryAfter: &after}, start)
	for range n - 1 {
		p.End(ticket, fine, start.Add(time.Second))
	}
	if n, _, wait := p.Begin(8, start.Add(time.Second)); n != 0 || wait != 89*time.Second {
		t.Errorf("%d requests, and a wait of %s", n, wait)
	}
	p.Hold(10*time.Second, start) // which another process was told before
	if n, _, _ := p.Begin(8, start.Add(89*time.Second)); n != 0 {
		t.Errorf("%d requests before the time", n)
	}
	if n, _, _ := p.Begin(8, start.Add(91*time.Second)); n == 0 {
		t.Error("no request when the time is over")
	}
}

// TestPaceHolds (4): in random histories there are never more requests than the limit, and never none for ever.
func TestPaceHolds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	p, now, open := NewPace(16, standard(t)), start, []Ticket{}
	for range 20_000 {
		now = now.Add(time.Duration(r.IntN(400)) * time.Millisecond)
		n, ticket, wait := p.Begin(1+r.IntN(20), now)
		used := n
		if n > 0 {
			used = r.IntN(n + 1)
			p.Unused(n - used)
		}
		for range used {
			open = append(open, ticket)
		}
		if len(open) > 16 || n == 0 && wait == 0 && len(open) == 0 || wait > 10*time.Second {
			t.Fatalf("%d requests, %d of them new, a wait of %s", len(open), n, wait)
		}
		for len(open) > 0 && r.IntN(3) > 0 {
			i := r.IntN(len(open))
			answers := []Answer{fine, fine, slow, {Status: 500}, {Status: 404}, {Err: errRandom}}
			p.End(open[i], answers[r.IntN(len(answers))], now)
			open = append(open[:i], open[i+1:]...)
		}
	}
}

// TestPaceFollowsSettings (5): pauses begin and end as the operator says.
func TestPaceFollowsSettings(t *testing.T) {
	p, now := NewPace(4, item.Pacing{Delay: time.Second, MostDelay: 3 * time.Second}), start
	for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		if n := round(p, slow, now); n != 1 {
			t.Fatalf("%d requests behind the pause", n)
		}
		if n, _, wait := p.Begin(1, now); n != 0 || wait != want {
			t.Errorf("%d requests after %d failures, and then a wait of %s, want %s", n, i+1, wait, want)
		}
		now = now.Add(want)
	}
}
