package jobs

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/schemas/job"
	"github.com/millrace-io/millrace/schemas/source"
)

// record is a job that is locked, or is about to be made.
type record struct {
	job.Job
	next     time.Time  // the first due time that the ledger does not have; it may have passed
	anchor   time.Time  // of an interval schedule, a due time of it
	resting  *time.Time // a due time that runs when the backoff ends
	ended    bool       // a run has ended with success or failed
	lastSeq  int64
	schedule int64     // version of the schedule
	since    time.Time // from when that counts
	decided  time.Time // the last due time from now on that the ledger has, such as after the clock was set back; zero: none
	fresh    bool      // it is not stored yet
	dirty    bool
	begun    string // why another schedule began in this transaction; empty: none did
}

// newJob makes the job of a source, with settings that people have given.
func newJob(s *state, origin string, o job.Overrides, c *change) (*record, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	r := &record{fresh: true, dirty: true}
	r.Job = job.Job{
		ID: id, SourceID: s.id, Status: job.Pending, AutoManaged: true, Origin: origin, Schedule: o.Schedule(),
		Settings: o.Over(computed(s.Fields)), Override: o, CreatedAt: c.now, UpdatedAt: c.now, Version: 1,
	}
	r.describe(s)
	if r.next, err = r.firstRun(s, c); err != nil {
		return nil, err
	}
	r.begin("created", r.next)
	if !s.Enabled {
		r.pause(job.BySource, "disabled")
	}
	return r, nil
}

// firstRun is the first due time of a new job. Few new jobs at a time wait no longer than the
// priority of their source says; the others are spread over their intervals, too.
func (r *record) firstRun(s *state, c *change) (time.Time, error) {
	if r.Schedule.Kind == "cron" {
		return nextCron(r.Schedule, c.now)
	}
	at := c.now.Add(schedule.Compute(input(s.Fields)).InitialDelay)
	if !s.Enabled || !c.soon() {
		at = r.spread(at)
	}
	return at, nil
}

// spread is the first of the times from some time on that belong to the job: they are its
// interval apart, and those of many jobs are spread evenly.
func (r *record) spread(from time.Time) time.Time {
	return schedule.Spread(r.ID.String(), time.Duration(r.IntervalMinutes)*time.Minute, from)
}

func input(f source.Fields) schedule.Input {
	return schedule.Input{Priority: f.Priority, RateLimit: f.RateLimit, MaxDepth: f.MaxDepth}
}

// computed are the settings that follow from a source.
func computed(f source.Fields) job.Settings {
	c, s := schedule.Compute(input(f)), job.Defaults()
	s.IntervalMinutes, s.Priority, s.MaxConcurrent = c.IntervalMinutes, c.Priority, c.MaxConcurrent
	s.BackoffBaseMinutes = c.IntervalMinutes
	return s
}

// describe has a job say what its source is.
func (r *record) describe(s *state) {
	r.SourceName, r.URL, r.RateLimit, r.MaxDepth, r.Selectors = s.Name, s.URL, s.RateLimit, s.MaxDepth, s.Selectors
	r.lastSeq = max(r.lastSeq, s.last)
}

// touch notes that an event or a person has changed the job.
func (r *record) touch(now time.Time) {
	r.dirty, r.UpdatedAt = true, now
	if !r.fresh {
		r.Version++
	}
}

// begin begins another schedule, or pause: due times from now on are those of it.
func (r *record) begin(why string, anchor time.Time) {
	if r.begun == "" {
		r.schedule++
	}
	r.begun, r.anchor, r.dirty, r.resting = why, anchor, true, nil
}

// open is from when on due times are open: now, or later where the clock was set back.
func (r *record) open(now time.Time) time.Time {
	at := now
	if !r.decided.Before(at) {
		at = r.decided.Add(time.Microsecond) // the precision with which they are kept
	}
	if r.since.After(at) {
		at = r.since
	}
	return at
}

// follow has a job follow its source after an event. enabled says that the event
// enables the source.
func (r *record) follow(s *state, enabled bool, c *change) error {
	r.touch(c.now)
	r.describe(s)
	if r.Status == job.Orphaned {
		r.Status = job.Status(r.RunningCount, r.FailureCount)
		r.begin("found", r.anchor)
	}
	if err := r.settle(s.Fields, "updated", c.now); err != nil {
		return err
	}
	switch {
	case !s.Enabled:
		r.pause(job.BySource, "disabled")
	case enabled, r.PausedBy == job.BySource:
		r.enable(c)
	}
	return nil
}

// settle has the job run as follows from its source and from what people have set. A
// schedule that changes makes nothing due that has passed, and its next due time is at most an
// interval ahead. Jobs whose intervals change together are spread.
func (r *record) settle(f source.Fields, why string, now time.Time) error {
	was, wasSchedule := r.Settings, r.Schedule
	r.Settings, r.Schedule = r.Override.Over(computed(f)), r.Override.Schedule()
	if r.Schedule == wasSchedule && (r.IntervalMinutes == was.IntervalMinutes || r.Schedule.Kind == "cron") {
		return nil
	}
	open := r.open(now)
	first, err := r.first(open)
	if err != nil {
		return err
	}
	if !r.next.Before(open) { // else the scheduler has yet to settle it
		r.next = first
	}
	r.begin(why, first)
	return nil
}

// first is the first due time of a schedule that begins at some time.
func (r *record) first(at time.Time) (time.Time, error) {
	if r.Schedule.Kind == "interval" {
		return r.spread(at), nil
	}
	return nextCron(r.Schedule, at.Add(-time.Microsecond)) // or then
}

// pause pauses the job. What has been asked for and has not begun does not run.
func (r *record) pause(by, why string) {
	if r.Status != job.Paused && r.Status != job.Orphaned {
		r.Status = job.Paused
		r.begin(why, r.anchor)
	}
	if r.Status == job.Paused && r.PausedBy != job.BySource {
		r.PausedBy = by
	}
	r.ForcedAt = nil
}

// enable has a job whose source was enabled run at once, whatever has failed before. Of many
// that are enabled at a time, most are spread over their intervals.
func (r *record) enable(c *change) {
	soon := c.soon()
	r.FailureCount, r.LastFailureAt, r.BackoffUntil = 0, nil, nil
	r.Status, r.PausedBy = job.Status(r.RunningCount, 0), ""
	if r.Schedule.Kind == "cron" { // its due times are those of the calendar
		at := c.now
		if !soon {
			at = r.spread(at)
		}
		r.ForcedAt = &at
		r.begin("enabled", r.anchor)
		return
	}
	open := r.open(c.now)
	first := open
	if !soon {
		first = r.spread(open)
	}
	if !r.next.Before(open) { // else the scheduler has yet to settle it
		r.next = first
	}
	r.begin("enabled", first)
}

// refusal is why a command does not apply to a job as it is.
type refusal struct{ status, rule string }

func (e *refusal) Error() string { return e.rule }

// Commands on jobs, as operations on many name them.
const (
	OpPause      = "pause"
	OpResume     = "resume"
	OpForceRun   = "force-run"
	OpSkipNext   = "skip-next"
	OpUnskipNext = "unskip-next"
)

// OpOverride is an operation on many jobs that needs a draft.
const OpOverride = "override"

// Operations are all of them.
var Operations = []string{OpPause, OpResume, OpForceRun, OpSkipNext, OpUnskipNext, OpOverride}

// do does a command, or returns a refusal. One that the job is after already changes
// nothing.
func (r *record) do(operation string, now time.Time) error {
	if r.Status == job.Orphaned {
		return &refusal{r.Status, "must have a source: its source does not exist any more"}
	}
	switch operation {
	case OpPause:
		if r.Status != job.Paused {
			r.touch(now)
			r.pause(job.ByUser, "paused")
		}
	case OpResume:
		switch {
		case r.Status != job.Paused:
		case r.PausedBy == job.BySource:
			return &refusal{r.Status, "must be of a source that is enabled: enable the source to resume it"}
		default:
			r.touch(now)
			r.Status, r.PausedBy = job.Status(r.RunningCount, r.FailureCount), ""
			r.begin("resumed", r.anchor)
		}
	case OpForceRun:
		switch {
		case r.Status == job.Paused:
			return &refusal{r.Status, "must not be paused: resume it first"}
		case r.ForcedAt == nil || r.ForcedAt.After(now): // the clock was set back
			r.touch(now)
			r.ForcedAt = &now
		}
	case OpSkipNext:
		switch {
		case r.Status == job.Paused:
			return &refusal{r.Status, "must not be paused: resume it first"}
		case !r.SkipNext:
			r.touch(now)
			r.SkipNext = true
		}
	case OpUnskipNext:
		if r.SkipNext {
			r.touch(now)
			r.SkipNext = false
		}
	default:
		return fmt.Errorf("there is no operation %s", operation)
	}
	return nil
}

// set sets what a draft says, which breaks no rule.
func (r *record) set(d *job.Draft, f source.Fields, now time.Time) error {
	r.touch(now)
	r.Override = d.Over(r.Override)
	if auto := d.AutoManaged(); auto != nil {
		if !*auto && r.AutoManaged {
			r.pin()
		}
		r.AutoManaged = *auto
	}
	return r.settle(f, "override", now)
}

// pin has people's settings say what the source does not decide any more.
func (r *record) pin() {
	s := r.Override.Over(r.Settings)
	if r.Override.Cron == nil {
		r.Override.IntervalMinutes = &s.IntervalMinutes
	}
	r.Override.Priority, r.Override.MaxConcurrent = &s.Priority, &s.MaxConcurrent
}

// unset has the job follow its source in everything.
func (r *record) unset(f source.Fields, now time.Time) error {
	r.touch(now)
	r.Override, r.AutoManaged = job.Overrides{}, true
	return r.settle(f, "automatic", now)
}

// told says to people what became of a job, by its statuses before and after an event;
// empty: there was none, or there is none.
func told(was, now string, changed []string) string {
	parts := changed
	switch {
	case was == now:
	case was == "":
		parts = append(parts, "job created")
	case now == "":
		parts = append(parts, "job deleted")
	default:
		parts = append(parts, "job "+now)
	}
	if len(parts) == 0 {
		return "nothing changed"
	}
	return strings.Join(parts, ", ")
}

// status of a job, or empty of none.
func (r *record) status() string {
	if r == nil {
		return ""
	}
	return r.Status
}

func (r *record) id() *uuid.UUID {
	if r == nil {
		return nil
	}
	return &r.ID
}
