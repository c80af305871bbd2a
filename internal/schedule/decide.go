package schedule

import "time"

// What can become of an instant at which a job was due.
const (
	Ran       = "ran"       // on time, or when a backoff had ended
	CaughtUp  = "caught_up" // ran late, since no scheduler was there in time
	Buffered  = "buffered"  // runs when another run of the job has ended, and has ran then
	Skipped   = "skipped"   // another run of the job went on, or somebody asked for it
	Coalesced = "coalesced" // a later instant ran for it, or one that waits
	Outside   = "outside_window"
	BackedOff = "backoff" // the job rested after failures; the last one of them runs afterwards, and has ran then
	Paused    = "paused"
	Expired   = "expired" // no scheduler was there in time, and it is not caught up
)

// Why, where the outcome does not say it.
const (
	ReasonOverlap  = "as many runs of the job were under way as may be"
	ReasonBuffered = "another due time waits for a run of the job to end"
	ReasonMissed   = "no scheduler ran in time, and a later due time stands for it"
	ReasonAsked    = "somebody asked for it"
	ReasonPolicy   = "no scheduler ran in time, and the catch-up policy leaves it out"
	ReasonChanged  = "the schedule was changed before a scheduler saw it"
	ReasonLate     = "it was in the window, and no scheduler ran before the window closed"
	ReasonTooOld   = "no scheduler ran in time, and it is too old to be caught up"
	ReasonRests    = "the job rests after failed runs"
	ReasonRested   = "it ran when the job had rested after failed runs"
	ReasonShut     = "the crawl window was closed when it could have run"
	ReasonPaused   = "the job was paused before it could run"
)

// OnTime is how long after an instant its run is still the regular one. It is no
// more than MinInterval, so that one instant at most is on time.
const OnTime = MinInterval

// busyWait is the wait of a run that is to be caught up for those under way.
const busyWait = 10 * time.Second

// State is what is known about a job when the instants are decided at which it was
// due.
type State struct {
	Job       string    // its id, for what differs from job to job
	From      time.Time // all instants before it have an outcome
	Now       time.Time
	Until     time.Time // when the schedule ended; zero: it is the one that counts
	Paused    bool
	Backoff   time.Time // the job does not run before; zero: it may
	Running   int       // runs that are under way or in the queue
	Most      int       // how many may be
	Buffered  bool      // an instant waits for them
	SkipNext  bool      // the next instant is to be skipped
	CatchFrom time.Time // no run is caught up before; zero: it may
}

// Row is what becomes of an instant at which a job was due.
type Row struct {
	Due     time.Time
	Outcome string
	Reason  string
	RunAt   time.Time // of what runs: not before then
	Cancel  bool      // of what runs: the other runs of the job are cancelled
	// Rests tells that the instant runs when the backoff ends, unless another one that is due
	// until then takes its place.
	Rests bool
}

// Runs tells whether the instant has a run.
func (r Row) Runs() bool { return r.Outcome == Ran || r.Outcome == CaughtUp }

// Plan is what becomes of the next instants at which a job was due.
type Plan struct {
	Rows []Row     // in order; only the last can have a run
	From time.Time // what State.From is next
	// Next is the first instant without an outcome; zero: there is none.
	Next time.Time
	// Wake is when there is more to decide: at once if not after State.Now. Zero: never.
	Wake      time.Time
	CatchFrom time.Time // what State.CatchFrom is next
	SkipNext  bool      // what State.SkipNext is next
}

// step is the precision with which databases keep an instant.
const step = time.Microsecond

// Decide decides what becomes of the next instants at which a job was due, at most
// as many as page says, and at most one run. Its work is bounded by page and by
// Policy.Cap, however much was missed: the caller comes back at Plan.Wake.
func Decide(r *Recurring, w Window, p Policy, s State, page int) Plan {
	d := decision{Recurring: r, window: w, policy: p, State: s}
	plan := Plan{From: s.From, CatchFrom: s.CatchFrom}
	for {
		due := r.Next(plan.From.Add(-step))
		plan.Next, plan.Wake, plan.SkipNext = due, due, d.SkipNext
		switch {
		case d.ended() && (due.IsZero() || !due.Before(s.Until)): // nothing of this schedule is left
			plan.From, plan.Wake = later(s.From, s.Until), s.Now
			return plan
		case due.IsZero() || due.After(s.Now):
			return plan
		case len(plan.Rows) == page:
			return plan
		}
		row, wait := d.row(due)
		if !wait.IsZero() {
			plan.Wake = wait
			return plan
		}
		plan.Rows, plan.From = append(plan.Rows, row), due.Add(step)
		if row.Outcome == CaughtUp {
			plan.CatchFrom = later(row.RunAt, s.Now).Add(p.Spread)
		}
		if row.Runs() || row.Outcome == Buffered {
			plan.Next, plan.SkipNext = r.Next(due), d.SkipNext
			plan.Wake = plan.Next
			return plan
		}
	}
}

type decision struct {
	*Recurring
	window Window
	policy Policy
	State
	oldest time.Time // that may be caught up; zero: not known yet
	stands bool      // one that may be caught up was due
}

// ended tells whether the schedule counts no more.
func (d *decision) ended() bool { return !d.Until.IsZero() && !d.Until.After(d.Now) }

// row decides about an instant, or says until when the decision has to wait.
func (d *decision) row(due time.Time) (row Row, wait time.Time) {
	none := time.Time{}
	switch {
	case d.Paused:
		return Row{Due: due, Outcome: Paused}, none
	case d.ended() && !due.After(d.Backoff):
		return Row{Due: due, Outcome: BackedOff, Reason: ReasonRests}, none
	case d.ended():
		return Row{Due: due, Outcome: Expired, Reason: ReasonChanged}, none
	case d.SkipNext:
		d.SkipNext = false
		return Row{Due: due, Outcome: Skipped, Reason: ReasonAsked}, none
	case !d.window.Open(due):
		return Row{Due: due, Outcome: Outside}, none
	case !d.window.Open(d.Now):
		return Row{Due: due, Outcome: Outside, Reason: ReasonLate}, none
	case !due.After(d.Backoff):
		rests := d.Now.Before(d.Backoff)
		if next := d.Next(due); rests || !next.IsZero() && !next.After(d.Backoff) {
			return Row{Due: due, Outcome: BackedOff, Reason: ReasonRests, Rests: rests}, none
		}
	case !due.Add(OnTime).After(d.Now):
		return d.missed(due)
	}
	return d.policy.Begin(d.State, due), none
}

// Begin decides about an instant that can run but for the other runs of the job.
func (p Policy) Begin(s State, due time.Time) Row {
	row := Row{Due: due, Outcome: Ran, RunAt: due.Add(Jitter(s.Job, due, p.Jitter))}
	if s.Running < s.Most {
		return row
	}
	switch p.Overlap {
	case OverlapAllow:
		return row
	case OverlapCancel:
		row.Cancel = true
		return row
	case OverlapBuffer:
		if s.Buffered {
			return Row{Due: due, Outcome: Coalesced, Reason: ReasonBuffered}
		}
		return Row{Due: due, Outcome: Buffered}
	}
	return Row{Due: due, Outcome: Skipped, Reason: ReasonOverlap}
}

func (d *decision) missed(due time.Time) (row Row, wait time.Time) {
	if d.oldest.IsZero() {
		d.oldest = d.catchable()
		newest := d.Next(d.oldest.Add(-time.Nanosecond))
		d.stands = !newest.IsZero() && !newest.After(d.Now)
	}
	one := d.policy.CatchUp == CatchUpOne || d.policy.CatchUp == ""
	switch {
	case !due.Before(d.oldest):
	case one && d.stands:
		return Row{Due: due, Outcome: Coalesced, Reason: ReasonMissed}, wait
	case one:
		return Row{Due: due, Outcome: Expired, Reason: ReasonTooOld}, wait
	default:
		return Row{Due: due, Outcome: Expired, Reason: ReasonPolicy}, wait
	}
	switch {
	case d.Now.Before(d.CatchFrom):
		return Row{}, d.CatchFrom
	case d.Running >= d.Most && d.policy.Overlap != OverlapAllow:
		return Row{}, d.Now.Add(busyWait)
	}
	row = Row{Due: due, Outcome: CaughtUp, RunAt: d.Now}
	if d.CatchFrom.IsZero() || d.CatchFrom.Add(d.policy.Spread).Before(d.Now) { // the first of them
		row.RunAt = d.Now.Add(Jitter(d.Job, due, d.policy.Spread))
	}
	return row, wait
}

// catchable is the oldest instant that may be caught up: of those that were due in
// time, the last ones.
func (d *decision) catchable() time.Time {
	never := d.Now.Add(time.Nanosecond)
	last := 0 // any number
	switch d.policy.CatchUp {
	case CatchUpNone:
		return never
	case CatchUpOne, "":
		last = 1
	case CatchUpRecent:
		if last = d.policy.Cap; last == 0 {
			last = defaultCap
		}
	default:
		last = d.policy.Cap
	}
	oldest := d.From
	if d.policy.Within > 0 {
		oldest = later(oldest, d.Now.Add(-d.policy.Within))
	}
	if last > 0 {
		oldest = later(oldest, d.newest(last, oldest))
	}
	return oldest
}

// newest is the instant from which on so many were due until now, or the one given
// when there were fewer since then. It looks back over twice the time at each step.
func (d *decision) newest(n int, least time.Time) time.Time {
	ring := make([]time.Time, n)
	for back := MinInterval * time.Duration(n); ; back *= 2 {
		from := d.Now.Add(-back)
		if back <= 0 || from.Before(least) { // or more than a Duration
			from = least
		}
		count := 0
		for at := d.Next(from.Add(-time.Nanosecond)); !at.IsZero() && !at.After(d.Now); at = d.Next(at) {
			ring[count%n] = at
			count++
		}
		if count >= n {
			return ring[count%n]
		}
		if from.Equal(least) {
			return least
		}
	}
}
