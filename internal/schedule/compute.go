package schedule

import "time"

// MaxBackoff is the longest that a job which fails rests, unless its settings say otherwise.
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
	// InitialDelay is the least wait of a new job for its first run.
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
		minutes = int(Backoff(minutes, int(MaxBackoff/time.Minute), in.Failures) / time.Minute)
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

// Backoff is how long a job rests after the last of its failures in a row: baseMinutes,
// doubled for each of them, and at most maxMinutes. Without failures it does not rest.
// Both must be positive.
func Backoff(baseMinutes, maxMinutes, failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	minutes := baseMinutes
	for i := 0; i < failures && minutes < maxMinutes; i++ {
		minutes *= 2
	}
	return time.Duration(min(minutes, maxMinutes)) * time.Minute
}

// RetryDelay is how long a run waits after an attempt has failed, from 1, for the next:
// the delay, doubled for each attempt after the first, and at most MaxBackoff.
func RetryDelay(delay time.Duration, attempt int) time.Duration {
	for i := 1; i < attempt && delay < MaxBackoff; i++ {
		delay *= 2
	}
	return min(delay, MaxBackoff)
}

// Spread is the first of the times from some time on that belong to a job with an interval. They
// are the interval apart, and follow from the id of the job alone: those of many jobs are
// spread evenly. They are whole microseconds.
func Spread(job string, interval time.Duration, from time.Time) time.Time {
	phase := Jitter(job, time.Time{}, interval).Truncate(step)
	wait := (phase - from.Sub(time.Unix(0, 0))) % interval
	if wait < 0 {
		wait += interval
	}
	return from.Add(wait)
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
