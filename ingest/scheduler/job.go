package scheduler

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/millrace-io/millrace/internal/schedule"
	"github.com/millrace-io/millrace/internal/userqueue"
	"github.com/millrace-io/millrace/schemas/item"
	"github.com/millrace-io/millrace/schemas/job"
)

// due is a job that is due, locked, and what becomes of it.
type due struct {
	id     uuid.UUID
	status string
	settings
	next             time.Time // the first due time without an outcome
	forced, buffered *time.Time
	bufferedForced   bool       // somebody asked for the run that waits
	resting          *time.Time // a due time that runs when the backoff ends
	backoff, catch   *time.Time
	skipNext         bool
	priority         int
	running          int
	now              time.Time
	versions         []version

	wait     *time.Time // until the decision about next
	wake     *time.Time
	failures int // runs that no item can hold
	ledger   []row
	settled  []row // rows that have waited
	runs     []run
	cancels  bool // the other runs
}

// settings are what events and people have set of a job.
type settings struct {
	source           uuid.UUID
	name, url        string
	rateLimit, depth int
	selectors        string // JSON
	window           schedule.Window
	windowZone       string
	most             int
	policy           schedule.Policy
}

// version is a schedule that a job had, or has.
type version struct {
	job    uuid.UUID
	from   time.Time
	to     *time.Time
	paused bool
	spec   schedule.Spec
}

// row is a row of the ledger.
type row struct {
	schedule.Row
	forced bool
	run    *uuid.UUID
}

// run is a run that begins.
type run struct {
	id     uuid.UUID
	due    time.Time
	at     time.Time // not before
	forced bool
	body   []byte
	item   *int64
	fault  string     // why no item can hold it
	span   trace.Span // nil: it is not traced
}

func scanDue(r pgx.CollectableRow) (*due, error) {
	j := new(due)
	return j, r.Scan(&j.id, &j.status, &j.next, &j.forced, &j.buffered, &j.bufferedForced, &j.resting, &j.backoff, &j.catch,
		&j.skipNext, &j.priority, &j.running, &j.now)
}

func scanSettings(r pgx.CollectableRow) (job uuid.UUID, s settings, err error) {
	var days []int16
	var within, spread, jitter int
	err = r.Scan(&job, &s.source, &s.name, &s.url, &s.rateLimit, &s.depth, &s.selectors, &s.window.Start,
		&s.window.End, &days, &s.windowZone, &s.most, &s.policy.Overlap, &s.policy.CatchUp, &within, &s.policy.Cap,
		&spread, &jitter)
	s.policy.Within, s.policy.Spread = time.Duration(within)*time.Second, time.Duration(spread)*time.Second
	s.policy.Jitter = time.Duration(jitter) * time.Second
	for _, day := range days {
		s.window.Days = append(s.window.Days, time.Weekday(day))
	}
	return job, s, err
}

func scanVersion(r pgx.CollectableRow) (v version, err error) {
	var anchor time.Time
	var minutes int
	var cron, zone string
	err = r.Scan(&v.job, &v.from, &v.to, &v.paused, &anchor, &minutes, &cron, &zone)
	if v.spec = (schedule.Spec{Cron: cron, Zone: zone}); cron == "" {
		v.spec = schedule.Spec{Interval: time.Duration(minutes) * time.Minute, Anchor: anchor}
	}
	return v, err
}

// decide decides about a job, and about as many of its due times as page says.
func (s *Scheduler) decide(j *due, page int) error {
	var err error
	if j.window.Zone, err = s.zone(j.windowZone); err != nil {
		return err
	}
	j.force()
	j.unbuffer()
	j.rested()
	if len(j.runs) > 0 && j.policy.Overlap == schedule.OverlapCancel {
		return nil // what is due takes the place of runs that are stored: the next look decides
	}
	for _, v := range j.versions {
		if v.to != nil && !v.to.After(j.next) {
			continue
		}
		r, err := s.recurring(v.spec)
		if err != nil {
			return err
		}
		if done := j.follow(r, v, page-len(j.ledger)); done {
			return nil
		}
	}
	return nil
}

// follow decides about due times of a schedule, and tells whether that is all for now.
func (j *due) follow(r *schedule.Recurring, v version, page int) (done bool) {
	state := j.state()
	state.From, state.Until, state.Paused = latest(&j.next, &v.from), latest(v.to), v.paused
	plan := schedule.Decide(r, j.window, j.policy, state, page)
	for _, decided := range plan.Rows {
		entry := row{Row: decided}
		switch {
		case decided.Runs():
			entry.run = j.begin(decided, false)
		case decided.Outcome == schedule.Buffered:
			at := decided.Due
			j.buffered, j.bufferedForced = &at, false
		case decided.Rests:
			at := decided.Due
			j.resting = &at
		}
		j.ledger = append(j.ledger, entry)
	}
	j.skipNext, j.catch, j.wait = plan.SkipNext, orNull(plan.CatchFrom), nil
	if v.to != nil && !plan.From.Before(*v.to) {
		j.next = *v.to
		return false
	}
	if j.next = plan.Next; j.next.IsZero() {
		j.next = never
	}
	if v.to != nil && j.next.After(*v.to) {
		j.next = *v.to
	}
	if plan.Wake.After(j.next) {
		j.wait = orNull(plan.Wake)
	}
	return true
}

// state is what is known of the job, whatever its schedule.
func (j *due) state() schedule.State {
	return schedule.State{
		Job: j.id.String(), Now: j.now, Backoff: latest(j.backoff), Running: j.running, Most: j.most,
		Buffered: j.buffered != nil, SkipNext: j.skipNext, CatchFrom: latest(j.catch),
	}
}

// never is when a job is due that is due no more.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// force begins a run that somebody asked for, or has it wait for those under way.
func (j *due) force() {
	if j.forced == nil || j.forced.After(j.now) {
		return
	}
	asked := schedule.Row{Due: *j.forced, Outcome: schedule.Ran, RunAt: *j.forced}
	j.forced = nil
	full := j.running >= j.most
	switch {
	case j.status == job.Paused:
		asked.Outcome = schedule.Paused
	case full && j.policy.Overlap == schedule.OverlapCancel:
		asked.Cancel = true
	case full && j.policy.Overlap != schedule.OverlapAllow && j.buffered != nil:
		asked.Outcome, asked.Reason = schedule.Coalesced, schedule.ReasonBuffered
	case full && j.policy.Overlap != schedule.OverlapAllow:
		asked.Outcome, j.buffered, j.bufferedForced = schedule.Buffered, &asked.Due, true
	}
	entry := row{Row: asked, forced: true}
	if asked.Runs() {
		entry.run = j.begin(asked, true)
	}
	j.ledger = append(j.ledger, entry)
}

// unbuffer begins the run that has waited for others, once there is room.
func (j *due) unbuffer() {
	if j.buffered == nil || j.running >= j.most { // the end of a run wakes the job
		return
	}
	if j.now.Before(latest(j.backoff)) && !j.bufferedForced {
		j.wake = j.backoff
		return
	}
	waited := row{Row: schedule.Row{Due: *j.buffered, Outcome: schedule.Ran, RunAt: j.now}}
	switch {
	case j.status == job.Paused:
		waited.Outcome, waited.Reason = schedule.Paused, schedule.ReasonPaused
	case !j.window.Open(j.now) && !j.bufferedForced:
		waited.Outcome, waited.Reason = schedule.Outside, schedule.ReasonShut
	default:
		waited.run = j.begin(waited.Row, j.bufferedForced)
	}
	j.buffered, j.bufferedForced, j.settled = nil, false, append(j.settled, waited)
}

// rested begins the run of the due time that has waited for the end of a backoff. A later one
// that was due until then takes its place.
func (j *due) rested() {
	if j.resting == nil || j.now.Before(latest(j.backoff)) {
		return
	}
	waited := row{Row: schedule.Row{Due: *j.resting, Outcome: schedule.BackedOff, Reason: schedule.ReasonRests}}
	j.resting = nil
	switch {
	case !j.next.After(latest(j.backoff)):
		return
	case j.status == job.Paused:
		waited.Reason = schedule.ReasonPaused
	case !j.window.Open(j.now):
		waited.Reason = schedule.ReasonShut
	default:
		waited.Row = j.policy.Begin(j.state(), waited.Due)
	}
	switch {
	case waited.Runs():
		waited.Reason = schedule.ReasonRested
		waited.run = j.begin(waited.Row, false)
	case waited.Outcome == schedule.Buffered:
		at := waited.Due
		j.buffered, j.bufferedForced = &at, false
	}
	j.settled = append(j.settled, waited)
}

// begin notes a run.
func (j *due) begin(r schedule.Row, forced bool) *uuid.UUID {
	begun := run{id: uuid.Must(uuid.NewV7()), due: r.Due, at: r.RunAt, forced: forced}
	body, err := json.Marshal(payload{
		JobID: j.id, SourceID: j.source, SourceName: j.name, URL: j.url, RateLimit: j.rateLimit, MaxDepth: j.depth,
		Selectors: json.RawMessage(j.selectors), DueAt: r.Due.UTC(),
	})
	switch {
	case err != nil:
		begun.fault = err.Error()
	case len(body) > maxPayload:
		const rule = "the source has more than %d bytes of JSON, which an item cannot hold: shorten its selectors"
		begun.fault = fmt.Sprintf(rule, maxPayload)
	}
	if begun.fault != "" {
		j.failures++
	} else {
		j.running++
		begun.body = body
	}
	j.cancels = j.cancels || r.Cancel
	j.runs = append(j.runs, begun)
	return &begun.id
}

// maxPayload is how many bytes of JSON an item can hold.
const maxPayload = userqueue.MaxPayload

// payload is what a worker learns of a run.
type payload struct {
	JobID      uuid.UUID       `json:"job_id"`
	SourceID   uuid.UUID       `json:"source_id"`
	SourceName string          `json:"source_name"`
	URL        string          `json:"url"`
	RateLimit  int             `json:"rate_limit"`
	MaxDepth   int             `json:"max_depth"`
	Selectors  json.RawMessage `json:"selectors"`
	DueAt      time.Time       `json:"due_at"`
}

// itemPriority is the priority of an item, for that of its job.
func itemPriority(priority int) int16 { return int16(min(priority/10, item.MaxPriority)) }

// latest is the latest of the times that are there; zero: there is none.
func latest(times ...*time.Time) (last time.Time) {
	for _, t := range times {
		if t != nil && t.After(last) {
			last = *t
		}
	}
	return last
}

func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
