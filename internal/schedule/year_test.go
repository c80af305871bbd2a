package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/schedule"
)

// TestSimulatedYear (1-6) lets jobs live on a simulated clock: with intervals and
// expressions in all zones, windows, policies, runs that fail, pauses, changes, and
// times without a scheduler. Each due time by a plain reference gets one outcome, and
// the one that the rules say. It takes 200 jobs over the changes of clocks of spring;
// MILLRACE_LONG=1 takes 10,000 jobs over a year.
func TestSimulatedYear(t *testing.T) {
	t.Parallel()
	zones, jobs, seed := zoneNames(t), 200, uint64(1)
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	to := from.AddDate(0, 2, 0)
	if os.Getenv("MILLRACE_LONG") != "" {
		jobs, seed = 10_000, uint64(time.Now().UnixNano())
		from, to = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(zones), func(i, j int) { zones[i], zones[j] = zones[j], zones[i] })
	down := downtimes(random, from, to)
	var away time.Duration
	for _, d := range down {
		away += d.to.Sub(d.from)
	}
	t.Logf("%d jobs in %d zones, %s without a scheduler, seed %d", jobs, len(zones), away, seed)
	var checked, next atomic.Int64
	var g sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() {
			for z := next.Add(1) - 1; z < int64(len(zones)) && !t.Failed(); z = next.Add(1) - 1 {
				var c clock
				for j := int(z); j < jobs; j += len(zones) {
					if c == nil {
						c = readClock(t, zones[z], from, to)
					}
					l := newLife(t, rand.New(rand.NewPCG(seed, uint64(j)+1)), zones[z], c, down, from, to)
					l.live()
					checked.Add(int64(l.checked))
					mu.Lock()
					for outcome, n := range l.outcomes {
						outcomes[outcome] += n
					}
					mu.Unlock()
				}
			}
		})
	}
	g.Wait()
	t.Logf("%d due times: %v", checked.Load(), outcomes)
	if outcomes[schedule.Ran] < int(checked.Load())/3 {
		t.Error("hardly anything ran")
	}
	for _, outcome := range []string{
		schedule.Ran, schedule.CaughtUp, schedule.Buffered, schedule.Skipped, schedule.Coalesced, schedule.Outside,
		schedule.BackedOff, schedule.Paused, schedule.Expired,
	} {
		if outcomes[outcome] == 0 {
			t.Errorf("no due time is %s", outcome)
		}
	}
}

// span is a time without its end.
type span struct{ from, to time.Time }

// downtimes are times without a scheduler, from minutes to two weeks.
func downtimes(r *rand.Rand, from, to time.Time) (all []span) {
	for at := from; ; {
		at = at.Add(time.Duration(r.IntN(20*24*3600)) * time.Second)
		lasts := time.Duration(1+r.IntN(600)) * time.Minute
		if r.IntN(8) == 0 {
			lasts = time.Duration(1+r.IntN(14)) * 24 * time.Hour
		}
		if !at.Add(lasts).Before(to) {
			return all
		}
		all = append(all, span{at, at.Add(lasts)})
		at = at.Add(lasts)
	}
}

// phase is a schedule of a job, or a pause, and the due times that the reference says.
type phase struct {
	span
	recurring *schedule.Recurring
	text      string
	paused    bool
	want      []time.Time
}

// yearly is the life of a job.
type yearly struct {
	*testing.T
	*rand.Rand
	zone     string
	clock    clock
	down     []span
	end      time.Time
	phases   []phase
	window   schedule.Window
	policy   schedule.Policy
	most     int
	lasting  time.Duration // of runs, at most
	ends     []time.Time   // of the runs under way, in order
	failures int
	resting  bool // a due time runs when the backoff ends

	state    schedule.State
	known    int // due times of the phase that have an outcome
	checked  int
	outcomes map[string]int
}

func newLife(
	t *testing.T, r *rand.Rand, zone string, c clock, down []span, from, to time.Time,
) *yearly {
	l := &yearly{T: t, Rand: r, zone: zone, clock: c, down: down, end: to, outcomes: map[string]int{}}
	l.policy = schedule.Policy{
		Overlap: []string{"skip", "buffer_one", "cancel_other", "allow"}[r.IntN(4)],
		CatchUp: []string{"none", "one", "recent", "all"}[r.IntN(4)], Cap: r.IntN(6),
		Within: time.Duration(r.IntN(4)) * 12 * time.Hour, Spread: time.Duration(r.IntN(3)) * time.Minute,
	}
	if r.IntN(3) == 0 {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		l.window = schedule.Window{Start: r.IntN(24), End: r.IntN(24), Zone: location}
		if r.IntN(2) == 0 {
			l.window.Days = []time.Weekday{time.Monday, time.Tuesday, time.Friday, time.Saturday}
		}
	}
	l.most, l.lasting = 1+r.IntN(2), time.Duration(1+r.IntN(90))*time.Minute
	for at := from; at.Before(to); {
		until := at.Add(time.Duration(10*24*3600+r.IntN(90*24*3600)) * time.Second)
		if !until.Before(to) {
			until = time.Time{}
		}
		paused := len(l.phases) > 0 && r.IntN(4) == 0
		l.phases = append(l.phases, l.phase(span{at, until}, paused))
		if until.IsZero() {
			break
		}
		at = until
	}
	l.state = schedule.State{Job: fmt.Sprint(r.Uint64()), From: from, Most: l.most}
	return l
}

// phase makes a schedule at random, or pauses the one before.
func (l *yearly) phase(s span, paused bool) phase {
	p := phase{span: s, paused: paused}
	last := s.to
	if last.IsZero() {
		last = l.end
	}
	spec := schedule.Spec{Interval: time.Duration(20+l.IntN(1420)) * time.Minute}
	var want []time.Time
	if l.IntN(3) == 0 {
		spec.Anchor = s.from.Add(time.Duration(l.IntN(7200)) * time.Second)
		for at := spec.Anchor; at.Before(last); at = at.Add(spec.Interval) {
			want = append(want, at)
		}
		p.text = fmt.Sprint("every ", spec.Interval, " from ", spec.Anchor)
	} else {
		f := randomExpression(l.Rand)
		spec = schedule.Spec{Cron: f.String(), Zone: l.zone}
		first, after := l.reading(s.from.Add(-72*time.Hour)), l.reading(last) // what it has reached before counts
		want = l.clock[max(0, first) : after+1].due(f)
		p.text = spec.Cron
	}
	p.recurring = compile(l, spec)
	for _, at := range want {
		if !at.Before(s.from) && at.Before(last) {
			p.want = append(p.want, at)
		}
	}
	return p
}

// live has schedulers decide about the job until its time is over.
func (l *yearly) live() {
	now := l.phases[0].from
	wake := l.decide(now)
	for !l.Failed() {
		now = l.up(l.later(now, wake))
		if !now.Before(l.end) {
			break
		}
		l.endRuns(now)
		wake = l.decide(now)
	}
	if l.Failed() {
		return
	}
	left := l.phases[0].want[l.known:]
	if len(left) > 0 && !left[0].After(l.state.Now) && !wake.After(l.state.Now) { // and nothing waits
		l.Errorf("%s: %d due times are left, the first at %s", l.zone, len(left), left[0])
	}
}

// later is when something happens next: a run ends, the schedule changes, or there is
// something to decide.
func (l *yearly) later(now, wake time.Time) time.Time {
	next := l.end
	times := append([]time.Time{wake, l.phases[0].to}, l.ends...)
	if l.resting {
		times = append(times, l.state.Backoff)
	}
	for _, at := range times {
		if at.After(now) && at.Before(next) {
			next = at
		}
	}
	return next
}

// up is a time, or the end of the downtime in which it is.
func (l *yearly) up(at time.Time) time.Time {
	i := sort.Search(len(l.down), func(i int) bool { return l.down[i].to.After(at) })
	if i < len(l.down) && !at.Before(l.down[i].from) {
		return l.down[i].to
	}
	return at
}

// endRuns ends runs, some of which fail, and begins the one that waited for them.
func (l *yearly) endRuns(now time.Time) {
	for len(l.ends) > 0 && !l.ends[0].After(now) {
		at := l.ends[0]
		l.ends = l.ends[1:]
		if l.failures++; l.IntN(12) > 0 {
			l.failures, l.state.Backoff, l.resting = 0, time.Time{}, false
		} else {
			l.state.Backoff = at.Add(schedule.Backoff(60, 24*60, l.failures))
		}
	}
	if l.state.Buffered && len(l.ends) < l.most && !now.Before(l.state.Backoff) {
		l.state.Buffered = false
		l.begin(now)
	}
	if l.resting && !now.Before(l.state.Backoff) {
		l.resting = false
		p := l.phases[0]
		superseded := l.known < len(p.want) && !p.want[l.known].After(l.state.Backoff)
		if !superseded && !p.paused && len(l.ends) < l.most {
			l.begin(now)
		}
	}
}

func (l *yearly) begin(at time.Time) {
	l.ends = append(l.ends, at.Add(time.Duration(1+l.Int64N(int64(l.lasting)))))
	slices.SortFunc(l.ends, time.Time.Compare)
}

// decide has a scheduler decide until it has nothing to do, and returns when it has.
func (l *yearly) decide(now time.Time) (wake time.Time) {
	s := &l.state
	for s.Now = now; !l.Failed(); {
		p := &l.phases[0]
		s.Paused, s.Until, s.Running = p.paused, time.Time{}, len(l.ends)
		if !p.to.IsZero() && !p.to.After(now) {
			s.Until = p.to
		}
		plan := schedule.Decide(p.recurring, l.window, l.policy, *s, 50)
		for _, row := range plan.Rows {
			l.check(p, row)
		}
		s.From, s.CatchFrom = plan.From, plan.CatchFrom
		if !s.Until.IsZero() && plan.From.Equal(s.Until) {
			if l.known != len(p.want) {
				l.Errorf("%s %s: %d due times have no outcome, the first at %s", p.text, l.zone, len(p.want)-l.known,
					p.want[l.known])
			}
			l.phases, l.known = l.phases[1:], 0
			s.CatchFrom = time.Time{}
			continue
		}
		if plan.Wake.IsZero() || plan.Wake.After(now) {
			return plan.Wake
		}
	}
	return l.end
}

// check holds a row to the reference, and does what it says.
func (l *yearly) check(p *phase, row schedule.Row) {
	l.checked++
	l.outcomes[row.Outcome]++
	if l.known >= len(p.want) || !row.Due.Equal(p.want[l.known]) {
		l.Errorf("%q in %s: due time %d is %s, want %v", p.text, l.zone, l.known, row.Due,
			p.want[min(l.known, len(p.want)):min(l.known+1, len(p.want))])
		return
	}
	var next time.Time
	if l.known++; l.known < len(p.want) {
		next = p.want[l.known]
	}
	if want := l.outcomesOf(p, row.Due, next); !slices.Contains(want, row.Outcome) {
		l.Errorf("%q in %s at %s: %+v, want %v; %+v %+v", p.text, l.zone, l.state.Now, row, want, l.policy, l.state)
	}
	l.state.Buffered = l.state.Buffered || row.Outcome == schedule.Buffered
	if l.resting = l.resting || row.Rests; row.Rests != (row.Outcome == schedule.BackedOff && l.state.Now.Before(l.state.Backoff)) &&
		(p.to.IsZero() || p.to.After(l.state.Now)) {
		l.Errorf("%q in %s at %s: %+v, backoff until %s", p.text, l.zone, l.state.Now, row, l.state.Backoff)
	}
	if row.Runs() {
		if row.Cancel {
			l.ends = nil
		}
		l.begin(l.state.Now)
	}
}

// outcomesOf are the outcomes that a due time may have, by the rules.
func (l *yearly) outcomesOf(p *phase, due, next time.Time) []string {
	now := l.state.Now
	onTime := now.Before(due.Add(time.Minute))
	rested := l.state.Backoff.Before(due)
	switch {
	case p.paused:
		return []string{schedule.Paused}
	case !p.to.IsZero() && !p.to.After(now) && !rested:
		return []string{schedule.BackedOff}
	case !p.to.IsZero() && !p.to.After(now):
		return []string{schedule.Expired}
	case !l.open(due), !l.open(now):
		return []string{schedule.Outside}
	case !rested && (now.Before(l.state.Backoff) || !next.IsZero() && !next.After(l.state.Backoff)):
		return []string{schedule.BackedOff}
	case onTime || !rested:
		return []string{l.regular()}
	}
	newest := next.IsZero() || next.After(now)
	fresh := l.policy.Within == 0 || now.Sub(due) <= l.policy.Within
	switch catch := l.policy.CatchUp; {
	case catch == "none":
		return []string{schedule.Expired}
	case newest && fresh:
		return []string{schedule.CaughtUp}
	case catch == "one" && newest: // the others may have another one that stands for them, or none
		return []string{schedule.Expired}
	case catch == "one":
		return []string{schedule.Coalesced, schedule.Expired}
	case !fresh:
		return []string{schedule.Expired}
	}
	return []string{schedule.CaughtUp, schedule.Expired}
}

// regular is the outcome of a due time that can run.
func (l *yearly) regular() string {
	switch {
	case l.state.Running < l.most || l.policy.Overlap == "allow" || l.policy.Overlap == "cancel_other":
		return schedule.Ran
	case l.policy.Overlap == "skip":
		return schedule.Skipped
	case l.state.Buffered:
		return schedule.Coalesced
	}
	return schedule.Buffered
}

// reading is the place of the last reading of the clock up to a time.
func (l *yearly) reading(at time.Time) int {
	return sort.Search(len(l.clock), func(i int) bool { return l.clock[i].at.After(at) }) - 1
}

// open reads the clock of the zone, and tells whether the window is open.
func (l *yearly) open(at time.Time) bool {
	w := l.window
	if w.Zone == nil {
		return true
	}
	i := l.reading(at)
	shows := l.clock[i].shows.Add(at.Sub(l.clock[i].at))
	hour, day := shows.Hour(), shows.Weekday()
	if w.Start == w.End { // all day
		w.Start, w.End = 0, 0
	}
	for h, left := w.Start, (w.End-w.Start+23)%24+1; left > 0; h, left = h+1, left-1 { // hour by hour
		if h%24 != hour {
			continue
		}
		if began := (int(day) + 7 - h/24) % 7; len(w.Days) == 0 || slices.Contains(w.Days, time.Weekday(began)) {
			return true
		}
	}
	return false
}
