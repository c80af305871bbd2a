package main

import (
	"slices"
	"testing"
	"time"
)

// soundCrawls is a record in which all is as it should be: a job that was due each
// minute, ran twice, was asked for once, and had its second run wait for the first; and
// one that was deleted.
func soundCrawls() (*crawlRecord, time.Time) {
	begin := time.Date(2026, 11, 23, 10, 0, 30, 0, time.UTC)
	gone := begin.Add(90 * time.Second)
	at := func(minutes int) time.Time { return begin.Add(time.Duration(minutes) * time.Minute) }
	asked := begin.Add(100 * time.Second)
	return &crawlRecord{
		now:     at(3),
		jobs:    map[string]*jobRow{"a": {source: "s", status: "pending", next: at(3), fields: map[string]any{"name": "n"}}},
		counted: map[string]int{"pending": 1},
		plans: []planRow{
			{job: "a", from: begin, to: &gone, anchor: &begin, interval: 1},
			{job: "a", from: gone, anchor: &begin, interval: 1},
			{job: "b", from: begin, to: &gone, cron: "* * * * *"},
		},
		ledger: []ledgerRow{
			{job: "a", due: at(0), outcome: "ran", run: "1"},
			{job: "a", due: at(1), outcome: "skipped"},
			{job: "a", due: asked, outcome: "ran", forced: true, run: "2"},
			{job: "a", due: at(2), outcome: "caught_up", run: "3"},
			{job: "b", due: begin.Add(30 * time.Second), outcome: "paused"},
		},
		runs: map[string]*runRow{
			"1": sound("a", at(0), 1, 10, 20),
			"2": sound("a", asked, 2, 21, 30),
			"3": {
				job: "a", source: "s", status: "cancelled", due: at(2), item: 3, itemStatus: "failed", begins: 31,
				ends: 33, begunBy: "x31", endedBy: "y",
			},
		},
		sources: map[string]map[string]any{"s": {"name": "n", "enabled": true}},
	}, begin
}

func sound(job string, due time.Time, item int, begins, ends int64) *runRow {
	return &runRow{
		job: job, source: "s", status: "success", due: due, item: item, itemStatus: "done", begins: begins,
		ends: ends, begunBy: due.String(), endedBy: "z",
	}
}

func compareCrawls(r *crawlRecord, most limit) *crawlVerdict {
	v := &crawlVerdict{outcomes: map[string]int{}}
	v.compareDue(r)
	v.compareRuns(r)
	v.compareBeside(r, map[string]limit{"s": most})
	v.compareJobs(r, false)
	v.compareCounters(r)
	return v
}

// TestCrawlsNoticed: what is missed, doubled or beside others is found, and nothing is
// where all is well.
func TestCrawlsNoticed(t *testing.T) {
	r, begin := soundCrawls()
	if v := compareCrawls(r, limit{most: 1}); len(v.mismatches) > 0 || v.due != 4 || v.forced != 1 || v.runs != 3 {
		t.Errorf("%v: %q", v, v.mismatches)
	}
	for name, tc := range map[string]struct {
		spoil                   func(r *crawlRecord)
		missed, doubled, beside int
		others                  int
		cancels                 bool
	}{
		"a row is gone":               {func(r *crawlRecord) { r.ledger = slices.Delete(r.ledger, 1, 2) }, 1, 0, 0, 0, false},
		"a row of a job that is gone": {func(r *crawlRecord) { r.ledger = r.ledger[:4] }, 1, 0, 0, 0, false},
		"a row is there twice":        {func(r *crawlRecord) { r.ledger = append(r.ledger, r.ledger[1]) }, 0, 1, 0, 0, false},
		"a row that no schedule says": {func(r *crawlRecord) {
			r.ledger = append(r.ledger, ledgerRow{job: "a", due: begin.Add(time.Second), outcome: "skipped"})
		}, 0, 1, 0, 0, false},
		"decided before its time": {func(r *crawlRecord) {
			r.ledger = append(r.ledger, ledgerRow{job: "a", due: begin.Add(3 * time.Minute), outcome: "skipped"})
		}, 0, 1, 0, 0, false},
		"a run is doubled": {func(r *crawlRecord) {
			r.runs["4"] = sound("a", begin, 4, 40, 41)
		}, 0, 1, 0, 0, false},
		"a run is gone":          {func(r *crawlRecord) { delete(r.runs, "2") }, 1, 0, 0, 0, false},
		"it ran without a run":   {func(r *crawlRecord) { r.ledger[0].run = ""; delete(r.runs, "1") }, 1, 0, 0, 0, false},
		"skipped, and has a run": {func(r *crawlRecord) { r.ledger[0].outcome = "skipped" }, 0, 1, 0, 0, false},
		"two at one time":        {func(r *crawlRecord) { r.runs["1"].ends = 25 }, 0, 0, 1, 0, false},
		"one takes its place": {func(r *crawlRecord) {
			r.runs["1"].ends, r.runs["1"].endedBy = 22, r.runs["2"].begunBy
		}, 0, 0, 0, 0, false},
		"one ends before it is taken": {func(r *crawlRecord) {
			r.runs["1"].ends, r.runs["2"].works = 22, 23
		}, 0, 0, 0, 0, true},
		"one goes on": {func(r *crawlRecord) {
			r.runs["1"].ends, r.runs["2"].works = 25, 23
		}, 0, 0, 1, 0, true},
		"the end is not followed":            {func(r *crawlRecord) { r.runs["1"].status = "running" }, 0, 0, 0, 2, false},
		"an end counts twice":                {func(r *crawlRecord) { r.jobs["a"].running = 1 }, 0, 0, 0, 1, false},
		"no job":                             {func(r *crawlRecord) { clear(r.sources) }, 0, 0, 0, 1, false},
		"a source without a job":             {func(r *crawlRecord) { r.sources["t"] = map[string]any{"enabled": true} }, 0, 0, 0, 1, false},
		"a job of a source that is disabled": {func(r *crawlRecord) { r.sources["s"]["enabled"] = false }, 0, 0, 0, 1, false},
		"a job is not counted":               {func(r *crawlRecord) { clear(r.counted) }, 0, 0, 0, 1, false},
		"a job is counted twice":             {func(r *crawlRecord) { r.counted["failed"] = 1 }, 0, 0, 0, 1, false},
		"a job that has another name":        {func(r *crawlRecord) { r.jobs["a"].fields["name"] = "m" }, 0, 0, 0, 1, false},
	} {
		r, _ := soundCrawls()
		tc.spoil(r)
		v := compareCrawls(r, limit{most: 1, cancels: tc.cancels})
		if v.missed != tc.missed || v.doubled != tc.doubled || v.beside != tc.beside ||
			len(v.mismatches) != tc.missed+tc.doubled+tc.beside+tc.others {
			t.Errorf("%s: missed %d, doubled %d, beside %d: %q", name, v.missed, v.doubled, v.beside, v.mismatches)
		}
		bad := &report{verdict: &verdict{}, findings: []finding{{v, "jobs", v.mismatches}}}
		if wrong := len(v.mismatches) > 0; bad.failed() != wrong {
			t.Errorf("%s: the report has failed: %t", name, bad.failed())
		}
	}
}

// TestSourceEventsNoticed: an event that is lost, doubled, out of order or not what the
// table says is found.
func TestSourceEventsNoticed(t *testing.T) {
	fields := func(rate float64, enabled bool) map[string]any {
		return map[string]any{"name": "n", "rate_limit": rate, "enabled": enabled}
	}
	events := func() []sourceEvent {
		return []sourceEvent{
			{"1", "SOURCE_CREATED", "a", fields(5, true)},
			{"2", "SOURCE_DISABLED", "a", nil},
			{"3", "SOURCE_UPDATED", "a", map[string]any{
				"previous": map[string]any{"rate_limit": 5.0}, "current": map[string]any{"rate_limit": 7.0},
			}},
			{"4", "SOURCE_CREATED", "b", fields(1, true)},
			{"5", "SOURCE_DELETED", "b", nil},
			{"6", "SOURCE_ENABLED", "a", nil},
		}
	}
	compare := func(all []sourceEvent) int {
		v := &crawlVerdict{}
		v.compareEvents(all, map[string]map[string]any{"a": fields(7, true)})
		return len(v.mismatches)
	}
	if n := compare(events()); n != 0 {
		t.Errorf("%d things are wrong where all is well", n)
	}
	for i := range events() {
		all := events()
		if compare(slices.Delete(all, i, i+1)) == 0 {
			t.Errorf("without event %d nothing is wrong", i+1)
		}
		all = events()
		again := all[i]
		again.ID = "again"
		if compare(slices.Insert(all, i+1, again)) == 0 {
			t.Errorf("with event %d twice, under two ids, nothing is wrong", i+1)
		}
		if all = events(); compare(slices.Insert(all, i+1, all[i])) == 0 {
			t.Errorf("with event %d twice nothing is wrong", i+1)
		}
	}
	all := events()
	all[1], all[5] = all[5], all[1]
	if compare(all) == 0 {
		t.Error("out of order nothing is wrong")
	}
}

// TestDueTimes: the plain due times begin at the anchor or the next that follows it by
// whole intervals, and those of a cron expression at whole minutes.
func TestDueTimes(t *testing.T) {
	anchor := time.Date(2026, 11, 23, 10, 0, 30, 0, time.UTC)
	for _, tc := range []struct {
		plan     planRow
		from, to time.Duration // from the anchor
		want     []time.Duration
	}{
		{planRow{anchor: &anchor, interval: 2}, 0, 4 * time.Minute, []time.Duration{0, 2 * time.Minute}},
		{planRow{anchor: &anchor, interval: 2}, 1, 4*time.Minute + 1, []time.Duration{2 * time.Minute, 4 * time.Minute}},
		{planRow{anchor: &anchor, interval: 1}, -time.Minute, 1, []time.Duration{0}},
		{planRow{cron: "* * * * *"}, 0, time.Minute, []time.Duration{30 * time.Second}},
		{
			planRow{cron: "*/2 * * * *"},
			-30 * time.Second, 2 * time.Minute,
			[]time.Duration{-30 * time.Second, 90 * time.Second},
		},
	} {
		got, known := tc.plan.dueTimes(anchor.Add(tc.from), anchor.Add(tc.to))
		var want []time.Time
		for _, after := range tc.want {
			want = append(want, anchor.Add(after))
		}
		if !known || !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%+v: %v, want %v", tc.plan, got, want)
		}
	}
	if _, known := (planRow{cron: "@daily"}).dueTimes(anchor, anchor); known {
		t.Error("it knows what it does not know")
	}
}
