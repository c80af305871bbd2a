package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/schedule"
)

// TestDecide decides about a job of every hour, from noon on.
func TestDecide(t *testing.T) {
	t.Parallel()
	noon := at(t, "2026-11-23T12:00Z")
	hourly := compile(t, schedule.Spec{Interval: time.Hour, Anchor: noon})
	type state = schedule.State
	night := schedule.Window{Start: 22, End: 6}
	for _, c := range []struct {
		name   string
		policy schedule.Policy
		window schedule.Window
		now    time.Duration // after noon
		state  state
		want   string // outcomes by the hour; then what is next, and when to come back
	}{
		{"not due", schedule.Policy{}, schedule.Window{}, -time.Minute, state{}, "next 12:00 wake 12:00"},
		{"on time", schedule.Policy{}, schedule.Window{}, time.Second, state{}, "12:00 ran next 13:00 wake 13:00"},
		{
			"nearly a minute late",
			schedule.Policy{CatchUp: "none"},
			schedule.Window{},
			59 * time.Second,
			state{},
			"12:00 ran next 13:00 wake 13:00",
		},

		{
			"one",
			schedule.Policy{},
			schedule.Window{},
			150 * time.Minute,
			state{},
			"12:00 coalesced, 13:00 coalesced, 14:00 caught_up next 15:00 wake 15:00",
		},
		{
			"one, on time",
			schedule.Policy{},
			schedule.Window{},
			2 * time.Hour,
			state{},
			"12:00 coalesced, 13:00 coalesced, 14:00 ran next 15:00 wake 15:00",
		},
		{
			"none",
			schedule.Policy{CatchUp: "none"},
			schedule.Window{},
			150 * time.Minute,
			state{},
			"12:00 expired, 13:00 expired, 14:00 expired next 15:00 wake 15:00",
		},
		{
			"recent",
			schedule.Policy{CatchUp: "recent", Cap: 2},
			schedule.Window{},
			150 * time.Minute,
			state{},
			"12:00 expired, 13:00 caught_up next 14:00 wake 14:00",
		},
		{
			"all",
			schedule.Policy{CatchUp: "all"},
			schedule.Window{},
			150 * time.Minute,
			state{},
			"12:00 caught_up next 13:00 wake 13:00",
		},
		{
			"all, within",
			schedule.Policy{CatchUp: "all", Within: time.Hour},
			schedule.Window{},
			150 * time.Minute,
			state{},
			"12:00 expired, 13:00 expired, 14:00 caught_up next 15:00 wake 15:00",
		},
		{
			"one, too long ago",
			schedule.Policy{Within: 10 * time.Minute},
			schedule.Window{},
			30 * time.Minute,
			state{},
			"12:00 expired next 13:00 wake 13:00",
		},
		{
			"spread",
			schedule.Policy{CatchUp: "all", Spread: time.Hour},
			schedule.Window{},
			150 * time.Minute,
			state{CatchFrom: noon.Add(160 * time.Minute)},
			"next 12:00 wake 14:40",
		},
		{
			"caught up after the one that goes",
			schedule.Policy{CatchUp: "all"},
			schedule.Window{},
			150 * time.Minute,
			state{Running: 1},
			"next 12:00 wake 14:30",
		},

		{"overlap", schedule.Policy{}, schedule.Window{}, 0, state{Running: 1}, "12:00 skipped next 13:00 wake 13:00"},
		{
			"room beside one",
			schedule.Policy{},
			schedule.Window{},
			0,
			state{Running: 1, Most: 2},
			"12:00 ran next 13:00 wake 13:00",
		},
		{
			"allow",
			schedule.Policy{Overlap: "allow"},
			schedule.Window{},
			0,
			state{Running: 1},
			"12:00 ran next 13:00 wake 13:00",
		},
		{
			"cancel",
			schedule.Policy{Overlap: "cancel_other"},
			schedule.Window{},
			0,
			state{Running: 1},
			"12:00 ran cancels next 13:00 wake 13:00",
		},
		{
			"buffer",
			schedule.Policy{Overlap: "buffer_one"},
			schedule.Window{},
			0,
			state{Running: 1},
			"12:00 buffered next 13:00 wake 13:00",
		},
		{
			"buffer is full",
			schedule.Policy{Overlap: "buffer_one"},
			schedule.Window{},
			0,
			state{Running: 1, Buffered: true},
			"12:00 coalesced next 13:00 wake 13:00",
		},

		{"outside", schedule.Policy{}, night, 0, state{}, "12:00 outside_window next 13:00 wake 13:00"},
		{
			"too late for the window",
			schedule.Policy{CatchUp: "all"},
			schedule.Window{Start: 12, End: 13},
			90 * time.Minute,
			state{},
			"12:00 outside_window, 13:00 outside_window next 14:00 wake 14:00",
		},
		{
			"paused",
			schedule.Policy{},
			schedule.Window{},
			time.Hour,
			state{Paused: true},
			"12:00 paused, 13:00 paused next 14:00 wake 14:00",
		},
		{
			"skip the next",
			schedule.Policy{CatchUp: "all"},
			schedule.Window{},
			time.Hour,
			state{SkipNext: true},
			"12:00 skipped, 13:00 ran next 14:00 wake 14:00",
		},
		{
			"changed",
			schedule.Policy{CatchUp: "all"},
			schedule.Window{},
			3 * time.Hour,
			state{Until: noon.Add(time.Hour)},
			"12:00 expired next 13:00 wake 15:00",
		},
		{
			"paused, and changed",
			schedule.Policy{},
			schedule.Window{},
			3 * time.Hour,
			state{Until: noon.Add(time.Minute), Paused: true},
			"12:00 paused next 13:00 wake 15:00",
		},

		{
			"backoff",
			schedule.Policy{},
			schedule.Window{},
			time.Minute,
			state{Backoff: noon.Add(90 * time.Minute)},
			"12:00 backoff rests next 13:00 wake 13:00",
		},
		{
			"changed in a backoff",
			schedule.Policy{},
			schedule.Window{},
			3 * time.Hour,
			state{Backoff: noon.Add(30 * time.Minute), Until: noon.Add(90 * time.Minute)},
			"12:00 backoff, 13:00 expired next 14:00 wake 15:00",
		},
		{
			"after the backoff",
			schedule.Policy{CatchUp: "none"},
			schedule.Window{},
			90 * time.Minute,
			state{Backoff: noon.Add(90 * time.Minute)},
			"12:00 backoff, 13:00 ran next 14:00 wake 14:00",
		},
		{
			"a page",
			schedule.Policy{CatchUp: "none"},
			schedule.Window{},
			20 * time.Hour,
			state{},
			"12:00 expired, 13:00 expired, 14:00 expired, 15:00 expired next 16:00 wake 16:00",
		},
	} {
		s := c.state
		s.Job, s.From, s.Now, s.Most = "j", noon.Add(-time.Minute), noon.Add(c.now), max(1, s.Most)
		plan := schedule.Decide(hourly, c.window, c.policy, s, 4)
		if got := show(plan); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func show(p schedule.Plan) string {
	var rows []string
	for _, r := range p.Rows {
		text := r.Due.Format("15:04 ") + r.Outcome
		if r.Cancel {
			text += " cancels"
		}
		if r.Rests {
			text += " rests"
		}
		rows = append(rows, text)
	}
	text := fmt.Sprintf("next %s wake %s", p.Next.Format("15:04"), p.Wake.Format("15:04"))
	if rows == nil {
		return text
	}
	return strings.Join(rows, ", ") + " " + text
}

// TestDowntime (6): two weeks without a scheduler, of a job of every minute, are
// decided in pages, and each instant once. All runs that are caught up are so far
// apart as the policy says.
func TestDowntime(t *testing.T) {
	t.Parallel()
	start := at(t, "2026-11-01T00:00Z")
	r := compile(t, schedule.Spec{Interval: time.Minute, Anchor: start})
	const downtime = 14 * 24 * 60
	for _, c := range []struct {
		policy schedule.Policy
		runs   int
	}{
		{schedule.Policy{CatchUp: "none"}, 1}, // the last minute is on time
		{schedule.Policy{CatchUp: "one"}, 1},
		{schedule.Policy{CatchUp: "recent", Cap: 7}, 7},
		{schedule.Policy{CatchUp: "recent"}, 10},
		{schedule.Policy{CatchUp: "all", Within: time.Hour}, 61},
		{schedule.Policy{CatchUp: "all", Cap: 1000}, 1000},
	} {
		s := schedule.State{Job: "j", From: start, Now: start.Add((downtime - 1) * time.Minute), Most: 1}
		rows, runs, steps := 0, 0, 0
		for {
			p := schedule.Decide(r, schedule.Window{}, c.policy, s, 500)
			if len(p.Rows) > 500 {
				t.Fatalf("a page has %d rows", len(p.Rows))
			}
			for _, row := range p.Rows {
				if !row.Due.Equal(start.Add(time.Duration(rows) * time.Minute)) {
					t.Fatalf("row %d is %s", rows, row.Due)
				}
				rows++
				if row.Runs() {
					runs++
				}
			}
			if steps++; p.Wake.After(s.Now) {
				break
			}
			s.From, s.CatchFrom = p.From, p.CatchFrom
		}
		if rows != downtime || runs != c.runs {
			t.Errorf("%+v: %d rows and %d runs in %d steps, want %d and %d", c.policy, rows, runs, steps,
				downtime, c.runs)
		}
	}
}

// TestHistories (6) lets jobs with all kinds of schedules and policies live through
// downtimes, pauses and changes, and holds what is decided to what must be.
func TestHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		h := &life{T: t, Rand: rand.New(rand.NewPCG(seed, 2)), now: at(t, "2026-03-01T00:00Z")}
		h.change()
		h.from = h.since
		for range 60 {
			h.step()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// life is a job's.
type life struct {
	*testing.T
	*rand.Rand
	spec                 *schedule.Recurring
	window               schedule.Window
	policy               schedule.Policy
	now, since, from     time.Time
	catch, backoff, last time.Time
	running              int
	buffered, paused     bool
}

func (h *life) change() {
	h.since = h.now
	s := schedule.Spec{
		Interval: time.Duration(1+h.IntN(180)) * time.Minute,
		Anchor:   h.now.Add(time.Duration(h.IntN(90)) * time.Minute),
	}
	if h.IntN(2) == 0 {
		s = schedule.Spec{
			Cron: []string{"*/5 * * * *", "30 2 * * *", "0,30 */3 * * 1-5"}[h.IntN(3)],
			Zone: []string{"UTC", "America/New_York", "Europe/Berlin"}[h.IntN(3)],
		}
	}
	h.spec, h.paused = compile(h, s), h.IntN(4) == 0
	h.policy = schedule.Policy{
		Overlap: []string{"skip", "buffer_one", "cancel_other", "allow"}[h.IntN(4)],
		CatchUp: []string{"none", "one", "recent", "all"}[h.IntN(4)], Cap: h.IntN(4),
		Within: time.Duration(h.IntN(3)) * 12 * time.Hour, Spread: time.Duration(h.IntN(3)) * time.Minute,
		Jitter: time.Duration(h.IntN(2)) * time.Minute,
	}
	if h.window = (schedule.Window{}); h.IntN(3) == 0 {
		h.window = schedule.Window{Start: h.IntN(24), End: h.IntN(24), Days: []time.Weekday{1, 2, 3, 6}}
	}
}

// step passes some time, then has the scheduler decide until it has nothing to do.
func (h *life) step() {
	h.now = h.now.Add([]time.Duration{time.Minute, 7 * time.Minute, 3 * time.Hour, 60 * time.Hour}[h.IntN(4)])
	if h.running > 0 && h.IntN(2) == 0 {
		if h.running--; h.IntN(3) == 0 {
			h.backoff = h.now.Add(schedule.Backoff(60, 24*60, 1+h.IntN(4)))
		}
	}
	var until time.Time
	if h.IntN(6) == 0 {
		until = h.now
	}
	for range 3000 {
		before := h.from
		p := schedule.Decide(h.spec, h.window, h.policy, schedule.State{
			Job: "j", From: h.from, Now: h.now, Until: until, Paused: h.paused, Backoff: h.backoff,
			Running: h.running, Most: 1, Buffered: h.buffered, CatchFrom: h.catch,
		}, 50)
		h.check(p, before, !until.IsZero())
		h.from, h.catch = p.From, p.CatchFrom
		if p.Wake.After(h.now) || p.Wake.IsZero() {
			return
		}
		if !until.IsZero() && p.From.Equal(until) {
			h.change()
			return
		}
	}
	h.Error("it never ends")
}

func (h *life) check(p schedule.Plan, from time.Time, ended bool) {
	for i, row := range p.Rows {
		due := h.spec.Next(from.Add(-time.Microsecond))
		if !row.Due.Equal(due) || due.After(h.now) {
			h.Errorf("at %s: row %d is of %s, want %s", h.now, i, row.Due, due)
		}
		from = due.Add(time.Microsecond)
		if row.Outcome == schedule.Buffered {
			h.buffered = true
		}
		if !row.Runs() {
			continue
		}
		switch {
		case i != len(p.Rows)-1:
			h.Error("it runs before the page ends")
		case h.paused || ended || !h.window.Open(h.now) || !h.window.Open(due) || h.now.Before(h.backoff):
			h.Errorf("at %s: %+v, though it is paused, ended, outside the window, or rests", h.now, row)
		case h.running > 0 && !row.Cancel && h.policy.Overlap != schedule.OverlapAllow:
			h.Errorf("at %s: %+v beside another", h.now, row)
		case row.Outcome == schedule.CaughtUp && h.now.Before(h.last.Add(h.policy.Spread)) && h.catch.After(h.now):
			h.Errorf("at %s: %+v, after one at %s", h.now, row, h.last)
		}
		if h.last = h.now; row.Cancel {
			h.running = 0
		}
		h.running++
	}
	if p.Next.IsZero() || p.Next.Before(p.From) || !p.Wake.After(h.now) && len(p.Rows) == 0 && !ended {
		h.Errorf("at %s: %+v", h.now, p)
	}
}

// TestWindow (5).
func TestWindow(t *testing.T) {
	t.Parallel()
	berlin, err := schedule.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	friday := []time.Weekday{time.Friday}
	for _, c := range []struct {
		window schedule.Window
		at     string // 2026-11-27 is a Friday
		open   bool
	}{
		{schedule.Window{}, "2026-11-27T05:00Z", true},
		{schedule.Window{Start: 5, End: 5}, "2026-11-27T04:00Z", true},
		{schedule.Window{Start: 5, End: 5, Days: friday}, "2026-11-27T04:00Z", true},
		{schedule.Window{Start: 5, End: 5, Days: friday}, "2026-11-28T04:00Z", false},
		{schedule.Window{Start: 9, End: 17}, "2026-11-27T08:59Z", false},
		{schedule.Window{Start: 9, End: 17}, "2026-11-27T09:00Z", true},
		{schedule.Window{Start: 9, End: 17}, "2026-11-27T16:59Z", true},
		{schedule.Window{Start: 9, End: 17}, "2026-11-27T17:00Z", false},
		{schedule.Window{Start: 9, End: 17, Days: friday}, "2026-11-26T10:00Z", false},
		{schedule.Window{Start: 22, End: 6}, "2026-11-27T21:59Z", false},
		{schedule.Window{Start: 22, End: 6}, "2026-11-27T22:00Z", true},
		{schedule.Window{Start: 22, End: 6}, "2026-11-27T05:59Z", true},
		{schedule.Window{Start: 22, End: 6}, "2026-11-27T06:00Z", false},
		{schedule.Window{Start: 22, End: 6, Days: friday}, "2026-11-27T05:00Z", false},
		{schedule.Window{Start: 22, End: 6, Days: friday}, "2026-11-27T23:00Z", true},
		{schedule.Window{Start: 22, End: 6, Days: friday}, "2026-11-28T05:00Z", true},
		{schedule.Window{Start: 22, End: 6, Days: friday}, "2026-11-28T23:00Z", false},
		{schedule.Window{Start: 22, End: 6, Days: []time.Weekday{time.Saturday}}, "2026-11-29T05:00Z", true},
		{schedule.Window{Start: 22, End: 0}, "2026-11-27T23:00Z", true},
		{schedule.Window{Start: 22, End: 0}, "2026-11-27T00:00Z", false},
		{schedule.Window{Start: 9, End: 17, Zone: berlin}, "2026-11-27T08:00Z", true},
		{schedule.Window{Start: 9, End: 17, Zone: berlin}, "2026-06-26T07:00Z", true},
		{schedule.Window{Start: 9, End: 17, Zone: berlin}, "2026-11-27T16:00Z", false},
	} {
		if got := c.window.Open(at(t, c.at)); got != c.open {
			t.Errorf("%+v at %s: %v", c.window, c.at, got)
		}
	}
}
