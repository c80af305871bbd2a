package schedule

import "time"

// MaxBackoff is the longest that a job which fails waits.
const MaxBackoff = 24 * time.Hour

// Input is what the schedule of a source is computed from.
type Input struct {
	Priority  string // low, normal, high or critical; any other is normal
	RateLimit int    // requests a second that the source allows; 0 and below: 10
	MaxDepth  int    // of links that are followed; 0 and below: 1
	Failures  int    // of the job, one after the other, since it last succeeded
}

// Computed is the schedule of a source.
type Computed struct {
	IntervalMinutes int    // between two runs, with the backoff of Input.Failures
	IntervalType    string // hours where the interval is whole hours, else minutes
	Priority        int    // from 0 to 100; of two jobs that are due, the higher runs first
	MaxConcurrent   int    // runs of one job at a time
	// InitialDelay is the wait of a new job for its first run, so that many sources
	// that are added at once do not run at once.
	InitialDelay time.Duration
}

// class is what follows from the name of a priority.
type class struct {
	minutes, priority, concurrent int
	delay                         time.Duration
}

var normal = class{minutes: 60, priority: 50, concurrent: 1, delay: 5 * time.Minute}

var classes = map[string]class{
	"low":      {minutes: 180, priority: 25, concurrent: 1, delay: 10 * time.Minute},
	"normal":   normal,
	"high":     {minutes: 30, priority: 75, concurrent: 2, delay: time.Minute},
	"critical": {minutes: 15, priority: 100, concurrent: 3},
}

// Compute returns the schedule of a source. Fractions of minutes are cut off after
// each step: the rate limit, the depth, the failures.
func Compute(in Input) Computed {
	c, known := classes[in.Priority]
	if !known {
		c = normal
	}
	minutes := forDepth(forRateLimit(c.minutes, in.RateLimit), in.MaxDepth)
	if in.Failures > 0 {
		minutes = int(Backoff(minutes, in.Failures) / time.Minute)
	}
	return Computed{
		IntervalMinutes: minutes, IntervalType: IntervalType(minutes),
		Priority: c.priority, MaxConcurrent: c.concurrent, InitialDelay: c.delay,
	}
}

// IntervalType says in which unit people read an interval: hours or minutes.
func IntervalType(minutes int) string {
	if minutes >= 60 && minutes%60 == 0 {
		return "hours"
	}
	return "minutes"
}

// Backoff is how long a job with an interval waits after the last of its failures:
// the interval, doubled for each of them, and at most MaxBackoff; without failures
// it does not wait. The interval must be positive.
func Backoff(intervalMinutes, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	const most = int(MaxBackoff / time.Minute)
	minutes := intervalMinutes
	for i := 0; i < failures && minutes < most; i++ {
		minutes *= 2
	}
	return time.Duration(min(minutes, most)) * time.Minute
}

// forRateLimit has sources that allow few requests visited less often.
func forRateLimit(minutes, rateLimit int) int {
	if rateLimit <= 0 {
		rateLimit = 10
	}
	switch {
	case rateLimit <= 5:
		return minutes * 3 / 2
	case rateLimit <= 10:
		return minutes
	case rateLimit <= 20:
		return minutes * 3 / 4
	}
	return minutes / 2
}

// forDepth has crawls that take longer begin less often.
func forDepth(minutes, maxDepth int) int {
	switch {
	case maxDepth <= 2:
		return minutes
	case maxDepth <= 5:
		return minutes * 5 / 4
	}
	return minutes * 3 / 2
}
