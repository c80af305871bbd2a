package schedule_test

import (
	"math"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/schedule"
)

func TestCompute(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		priority                   string
		rateLimit, depth, failures int
		minutes                    int
		unit                       string
		numeric, concurrent        int
		delay                      time.Duration
	}{
		{"critical", 10, 1, 0, 15, "minutes", 100, 3, 0},
		{"high", 10, 1, 0, 30, "minutes", 75, 2, time.Minute},
		{"normal", 10, 1, 0, 60, "hours", 50, 1, 5 * time.Minute},
		{"low", 10, 1, 0, 180, "hours", 25, 1, 10 * time.Minute},
		{"", 0, 0, 0, 60, "hours", 50, 1, 5 * time.Minute},
		{"urgent", -1, -1, -1, 60, "hours", 50, 1, 5 * time.Minute},
		// rate limits, with the bounds of each step
		{"normal", 1, 1, 0, 90, "minutes", 50, 1, 5 * time.Minute},
		{"normal", 5, 1, 0, 90, "minutes", 50, 1, 5 * time.Minute},
		{"normal", 6, 1, 0, 60, "hours", 50, 1, 5 * time.Minute},
		{"normal", 11, 1, 0, 45, "minutes", 50, 1, 5 * time.Minute},
		{"normal", 20, 1, 0, 45, "minutes", 50, 1, 5 * time.Minute},
		{"normal", 21, 1, 0, 30, "minutes", 50, 1, 5 * time.Minute},
		{"critical", 5, 1, 0, 22, "minutes", 100, 3, 0},
		{"critical", 20, 1, 0, 11, "minutes", 100, 3, 0},
		{"critical", 1000, 1, 0, 7, "minutes", 100, 3, 0},
		// depths, after the rate limit
		{"normal", 10, 2, 0, 60, "hours", 50, 1, 5 * time.Minute},
		{"normal", 10, 3, 0, 75, "minutes", 50, 1, 5 * time.Minute},
		{"normal", 10, 5, 0, 75, "minutes", 50, 1, 5 * time.Minute},
		{"normal", 10, 6, 0, 90, "minutes", 50, 1, 5 * time.Minute},
		{"critical", 5, 3, 0, 27, "minutes", 100, 3, 0},
		{"critical", 1000, 100, 0, 10, "minutes", 100, 3, 0},
		{"low", 1, 100, 0, 405, "minutes", 25, 1, 10 * time.Minute},
		// failures
		{"normal", 10, 1, 1, 120, "hours", 50, 1, 5 * time.Minute},
		{"critical", 10, 1, 6, 960, "hours", 100, 3, 0},
		{"critical", 10, 1, 7, 1440, "hours", 100, 3, 0},
		{"critical", 1000, 1, 7, 896, "minutes", 100, 3, 0},
		{"low", 1, 100, 1, 810, "minutes", 25, 1, 10 * time.Minute},
		{"normal", 10, 1, 57, 1440, "hours", 50, 1, 5 * time.Minute},
		{"normal", 10, 1, 58, 1440, "hours", 50, 1, 5 * time.Minute},
		{"normal", 10, 1, 63, 1440, "hours", 50, 1, 5 * time.Minute},
		{"normal", 10, 1, 64, 1440, "hours", 50, 1, 5 * time.Minute},
		{"normal", 10, 1, 1000, 1440, "hours", 50, 1, 5 * time.Minute},
	} {
		in := schedule.Input{Priority: c.priority, RateLimit: c.rateLimit, MaxDepth: c.depth, Failures: c.failures}
		want := schedule.Computed{
			IntervalMinutes: c.minutes, IntervalType: c.unit,
			Priority: c.numeric, MaxConcurrent: c.concurrent, InitialDelay: c.delay,
		}
		if got := schedule.Compute(in); got != want {
			t.Errorf("%+v: %+v, want %+v", in, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ interval, failures, minutes int }{
		{60, -1, 0},
		{60, 0, 0},
		{60, 1, 120},
		{60, 4, 960},
		{60, 5, 1440},
		{15, 6, 960},
		{1, 6, 64},
		{1, 10, 1024},
		{1, 11, 1440},
		{1, 57, 1440},
		{1, 58, 1440},
		{1, 63, 1440},
		{1, 64, 1440},
		{1, 1000, 1440},
		{1, math.MaxInt, 1440},
		{1440, 1, 1440},
		{7 * 1440, 1, 1440},
		{math.MaxInt, 1, 1440},
	} {
		if got := schedule.Backoff(c.interval, 24*60, c.failures); got != time.Duration(c.minutes)*time.Minute {
			t.Errorf("%d minutes, %d failures: %s, want %d minutes", c.interval, c.failures, got, c.minutes)
		}
	}
}
