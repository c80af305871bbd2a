package main

import (
	"maps"
	"slices"
	"time"
)

// dueTimes are the times at which a schedule says that its job is due, from one on and
// before another. It knows the few kinds of schedules that jobs have here.
func (p planRow) dueTimes(from, to time.Time) (all []time.Time, known bool) {
	step, first := time.Duration(p.interval)*time.Minute, from
	switch p.cron {
	case "":
		if p.anchor == nil || step <= 0 {
			return nil, false
		}
		first = *p.anchor
		if behind := from.Sub(first); behind > 0 {
			first = first.Add((behind + step - 1) / step * step)
		}
	case "* * * * *", "*/2 * * * *":
		step = time.Minute
		if p.cron[1] == '/' {
			step *= 2
		}
		if first = from.Truncate(step); first.Before(from) {
			first = first.Add(step)
		}
	default:
		return nil, false
	}
	for at := first; at.Before(to); at = at.Add(step) {
		all = append(all, at)
	}
	return all, true
}

// instant is a due time of a job.
type instant struct {
	job string
	due int64 // Unix microseconds
}

// compareDue holds the ledger to the schedules: each due time up to where the job is
// decided has one row, and no other has one.
func (v *crawlVerdict) compareDue(r *crawlRecord) {
	said := map[instant]int{}
	for _, p := range r.plans {
		j, to := r.jobs[p.job], r.now
		if p.to != nil {
			to = *p.to
		}
		switch {
		case j != nil && (p.to == nil || j.next.Before(to)):
			to = j.next
		case j == nil && p.to == nil:
			v.wrong("the job %s is gone, and its schedule counts still", p.job)
		}
		all, known := p.dueTimes(p.from, to)
		if !known {
			v.wrong("nobody has given the job %s the schedule %+v", p.job, p)
		}
		for _, at := range all {
			v.due++
			said[instant{p.job, at.UnixMicro()}]++
		}
	}
	rows := map[instant]int{}
	for _, l := range r.ledger {
		v.outcomes[l.outcome]++
		at := instant{l.job, l.due.UnixMicro()}
		if rows[at]++; l.forced && said[at] == 0 {
			v.forced++
			said[at] = 1
		}
	}
	for at, times := range said {
		switch due := time.UnixMicro(at.due).UTC(); {
		case times > 1:
			v.doubled++
			v.wrong("two schedules of the job %s say %s", at.job, due)
		case rows[at] == 0:
			v.missed++
			v.wrong("the due time %s of the job %s has no row in the ledger", due, at.job)
		}
	}
	for at, times := range rows {
		if times > max(1, said[at]) || said[at] == 0 {
			v.doubled++
			v.wrong("the ledger has %d rows of %s of the job %s, and its schedules say %d", times,
				time.UnixMicro(at.due).UTC(), at.job, said[at])
		}
	}
}

// compareRuns holds the runs to the ledger: what ran has one run, all else none; and
// each to its item.
func (v *crawlVerdict) compareRuns(r *crawlRecord) {
	named := map[string]int{}
	for _, l := range r.ledger {
		ran := l.outcome == "ran" || l.outcome == "caught_up"
		if ran != (l.run != "") {
			v.missed += btoi(ran)
			v.doubled += btoi(!ran)
			v.wrong("by the ledger, %s of the job %s is %s, with the run %q", l.due, l.job, l.outcome, l.run)
		}
		if l.run == "" {
			continue
		}
		named[l.run]++
		if run := r.runs[l.run]; run == nil || run.job != l.job || !run.due.Equal(l.due) {
			v.missed++
			v.wrong("by the ledger, %s of the job %s has the run %s, which is %+v", l.due, l.job, l.run, run)
		}
	}
	live, items := map[string]int{}, map[int]int{}
	for id, run := range r.runs {
		v.runs++
		if named[id] != 1 {
			v.doubled++
			v.wrong("the ledger names the run %s of %s of the job %s %d times", id, run.due, run.job, named[id])
		}
		if run.item != 0 {
			items[run.item]++
		}
		if items[run.item] > 1 {
			v.wrong("the item %d is that of several runs", run.item)
		}
		live[run.job] += btoi(run.status == "queued" || run.status == "running")
		v.compareItem(id, run)
	}
	for id, j := range r.jobs {
		if j.running != live[id] {
			v.wrong("%d runs of the job %s go on, and it counts %d", live[id], id, j.running)
		}
	}
}

// compareItem holds a run to its item.
func (v *crawlVerdict) compareItem(id string, run *runRow) {
	want := map[string][]string{
		"new": {"queued"}, "started": {"running"}, "done": {"success"}, "failed": {"failed", "cancelled"},
	}[run.itemStatus]
	if !slices.Contains(want, run.status) || run.begins == 0 || (run.ends == 0) != (run.itemStatus == "new" ||
		run.itemStatus == "started") {
		v.wrong("the run %s is %+v", id, run)
	}
}

// mostAtFirst is how many runs of a job may be at one time before people have said it:
// its source is critical.
const mostAtFirst = 3

// changed is from when on each job has run as people have said.
func (r *crawlRecord) changed() map[string]time.Time {
	plans, from := map[string]int{}, map[string]time.Time{}
	for _, p := range r.plans {
		if plans[p.job]++; plans[p.job] <= 2 {
			from[p.job] = p.from
		}
	}
	return from
}

// compareBeside holds that no job has more runs at one time than it may. A run that
// others make room for ends in the transaction in which the next begins; or it has ended
// by itself when that transaction comes to it, which then has registered the next.
func (v *crawlVerdict) compareBeside(r *crawlRecord, limits map[string]limit) {
	ofJob := map[string][]*runRow{}
	for _, run := range r.runs {
		if l, known := limits[run.source]; run.begins > 0 && (!known || l.most > 0) {
			ofJob[run.job] = append(ofJob[run.job], run)
		}
	}
	set := r.changed()
	for job, runs := range ofJob {
		slices.SortFunc(runs, func(a, b *runRow) int { return int(a.begins - b.begins) })
		live := map[*runRow]bool{}
		for _, run := range runs {
			most, cancels := mostAtFirst, false
			if l, known := limits[run.source]; known && !run.due.Before(set[job]) {
				most, cancels = l.most, l.cancels
			}
			maps.DeleteFunc(live, func(other *runRow, _ bool) bool {
				return other.ends > 0 && (other.ends < run.begins || other.endedBy == run.begunBy ||
					cancels && (run.works == 0 || other.ends < run.works))
			})
			if live[run] = true; len(live) > most {
				v.beside++
				v.wrong("the job %s has %d runs at one time, and may have %d: %s", job, len(live), most, run.due)
			}
		}
	}
}
