package job

import (
	"time"
)

// Settings are how a job runs.
type Settings struct {
	IntervalMinutes      int          `json:"interval_minutes" doc:"From one due time to the next; of a cron schedule, the default of backoff_base_minutes" example:"30"`
	Priority             int          `json:"priority" minimum:"0" maximum:"100" doc:"Of jobs that are due, a higher one runs sooner" example:"75"`
	MaxConcurrent        int          `json:"max_concurrent" doc:"Runs of the job at a time" example:"2"`
	JitterSeconds        int          `json:"jitter_seconds" doc:"A run begins up to this long after its due time"`
	CrawlWindow          *CrawlWindow `json:"crawl_window" doc:"When it may run; null: always"`
	OverlapPolicy        string       `json:"overlap_policy" enum:"skip,buffer_one,cancel_other,allow" doc:"What becomes of a due time while max_concurrent runs are under way"`
	CatchUpPolicy        string       `json:"catch_up_policy" enum:"none,one,recent,all" doc:"Which due times run that passed while no scheduler ran"`
	CatchUpWindowSeconds int          `json:"catch_up_window_seconds" doc:"Older due times are not caught up"`
	CatchUpCap           int          `json:"catch_up_cap" doc:"How many are caught up at most"`
	CatchUpSpreadSeconds int          `json:"catch_up_spread_seconds" doc:"Over how long these are spread"`
	MaxAttempts          int          `json:"max_attempts" doc:"Attempts of a run before it has failed"`
	RetryDelaySeconds    int          `json:"retry_delay_seconds" doc:"From a failed attempt of a run to the next, doubled for each further attempt, up to a day"`
	BackoffBaseMinutes   int          `json:"backoff_base_minutes" doc:"The job rests after failed runs: for this time, doubled for each of them in a row" example:"30"`
	BackoffMaxMinutes    int          `json:"backoff_max_minutes" doc:"The longest that it rests" example:"1440"`
}

// Defaults are the settings that do not follow from a source.
func Defaults() Settings {
	return Settings{
		OverlapPolicy: "skip", CatchUpPolicy: "one", CatchUpWindowSeconds: int(24 * time.Hour / time.Second),
		CatchUpCap: 10, MaxAttempts: 1, RetryDelaySeconds: 60, BackoffMaxMinutes: 24 * 60,
	}
}

// CrawlWindow is when a job may run: from one hour of a day to another, on some days. The
// same hour twice is always. One that ends before it begins goes on until the next
// day, and belongs to the day on which it began.
type CrawlWindow struct {
	StartHour int    `json:"start_hour" minimum:"0" maximum:"23" doc:"When it opens" example:"22"`
	EndHour   int    `json:"end_hour" minimum:"0" maximum:"23" doc:"When it closes" example:"6"`
	Days      []int  `json:"days" nullable:"false" doc:"Days on which it opens, 0 is Sunday; empty: every day. A request may name them, such as mon"`
	TimeZone  string `json:"time_zone" doc:"Whose hours these are" example:"Europe/Berlin"`
}

// Overrides are the settings that people have set; nil: what is computed counts.
type Overrides struct {
	IntervalMinutes      *int         `json:"interval_minutes,omitempty" minimum:"1" maximum:"527040" doc:"From one due time to the next"`
	Cron                 *string      `json:"cron,omitempty" doc:"A cron expression of five fields, in place of an interval" example:"0 6 * * 1-5"`
	TimeZone             *string      `json:"time_zone,omitempty" doc:"Of the cron expression; default UTC" example:"Europe/Berlin"`
	Priority             *int         `json:"priority,omitempty" minimum:"0" maximum:"100"`
	MaxConcurrent        *int         `json:"max_concurrent,omitempty" minimum:"1" maximum:"100"`
	JitterSeconds        *int         `json:"jitter_seconds,omitempty" minimum:"0" maximum:"3600"`
	CrawlWindow          *CrawlWindow `json:"crawl_window,omitempty"`
	OverlapPolicy        *string      `json:"overlap_policy,omitempty" enum:"skip,buffer_one,cancel_other,allow"`
	CatchUpPolicy        *string      `json:"catch_up_policy,omitempty" enum:"none,one,recent,all"`
	CatchUpWindowSeconds *int         `json:"catch_up_window_seconds,omitempty" minimum:"0" maximum:"2678400"`
	CatchUpCap           *int         `json:"catch_up_cap,omitempty" minimum:"0" maximum:"1000"`
	CatchUpSpreadSeconds *int         `json:"catch_up_spread_seconds,omitempty" minimum:"0" maximum:"86400"`
	MaxAttempts          *int         `json:"max_attempts,omitempty" minimum:"1" maximum:"100" doc:"Attempts of a run before it has failed; default 1"`
	RetryDelaySeconds    *int         `json:"retry_delay_seconds,omitempty" minimum:"0" maximum:"86400" doc:"From a failed attempt of a run to the next, doubled for each further attempt; default 60"`
	BackoffBaseMinutes   *int         `json:"backoff_base_minutes,omitempty" minimum:"1" maximum:"527040" doc:"The job rests after failed runs: for this time, doubled for each of them in a row; default the interval"`
	BackoffMaxMinutes    *int         `json:"backoff_max_minutes,omitempty" minimum:"1" maximum:"527040" doc:"The longest that it rests; default 1440"`
}

// Over returns settings in which those that people have set have taken the place of
// what was computed.
func (o Overrides) Over(s Settings) Settings {
	put(&s.IntervalMinutes, o.IntervalMinutes)
	put(&s.Priority, o.Priority)
	put(&s.MaxConcurrent, o.MaxConcurrent)
	put(&s.JitterSeconds, o.JitterSeconds)
	put(&s.OverlapPolicy, o.OverlapPolicy)
	put(&s.CatchUpPolicy, o.CatchUpPolicy)
	put(&s.CatchUpWindowSeconds, o.CatchUpWindowSeconds)
	put(&s.CatchUpCap, o.CatchUpCap)
	put(&s.CatchUpSpreadSeconds, o.CatchUpSpreadSeconds)
	put(&s.MaxAttempts, o.MaxAttempts)
	put(&s.RetryDelaySeconds, o.RetryDelaySeconds)
	s.BackoffBaseMinutes = s.IntervalMinutes
	put(&s.BackoffBaseMinutes, o.BackoffBaseMinutes)
	put(&s.BackoffMaxMinutes, o.BackoffMaxMinutes)
	if o.CrawlWindow != nil {
		s.CrawlWindow = o.CrawlWindow
	}
	return s
}

func put[T any](into *T, value *T) {
	if value != nil {
		*into = *value
	}
}

// Schedule is the schedule that follows from what people have set.
func (o Overrides) Schedule() CrawlSchedule {
	s := CrawlSchedule{Kind: "interval", TimeZone: "UTC"}
	if o.Cron != nil {
		s.Kind, s.Cron = "cron", *o.Cron
		put(&s.TimeZone, o.TimeZone)
	}
	return s
}
