package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/millrace-io/millrace/schemas/job"
)

// crawlVerdict is what the comparison of jobs found.
type crawlVerdict struct {
	sources, events int
	due             int // times by the schedules, recounted
	missed, doubled int // of them
	forced          int // runs that were asked for
	runs            int
	beside          int // runs beyond as many as may be at one time
	acked           int // runs whose end was acknowledged to a worker
	acts            int // that were answered
	outcomes        map[string]int
	workVerdict     // of the items of the runs
}

func (v *crawlVerdict) String() string {
	var outcomes []string
	for name, n := range v.outcomes {
		outcomes = append(outcomes, fmt.Sprint(name, " ", n))
	}
	slices.Sort(outcomes)
	return fmt.Sprintf("jobs: %d due times decided, missed %d, doubled %d, beside others that may not be %d (%s); "+
		"%d were asked for; %d runs, of which workers were acknowledged the ends of %d; "+
		"sources %d, events %d, acts of people %d",
		v.due, v.missed, v.doubled, v.beside, strings.Join(outcomes, ", "), v.forced, v.runs, v.acked, v.sources,
		v.events, v.acts)
}

// check compares jobs with their schedules, their sources and what was acknowledged.
func (s *crawls) check(ctx context.Context) (finding, error) {
	v, err := s.compare(ctx)
	return finding{v, "jobs differ from the recount", v.mismatches}, err
}

func (s *crawls) compare(ctx context.Context) (*crawlVerdict, error) {
	v := &crawlVerdict{outcomes: map[string]int{}}
	r, err := s.readCrawls(ctx)
	if err != nil {
		return v, fmt.Errorf("read the record of jobs: %w", err)
	}
	s.notes.mu.Lock()
	defer s.notes.mu.Unlock()
	v.compareDue(r)
	v.compareRuns(r)
	v.compareBeside(r, s.limits())
	v.compareJobs(r, s.moved(s.river...))
	v.compareCounters(r)
	if err := s.compareAcks(ctx, v, r); err != nil {
		return v, err
	}
	events, err := s.readEvents(ctx)
	if err != nil {
		return v, err
	}
	v.compareEvents(events, r.sources)
	for id := range s.known {
		if _, there := r.sources[id]; !there && !s.known[id].gone {
			v.wrong("the source %s was made, and is not there", id)
		}
	}
	if err := s.audit(ctx, v); err != nil {
		return v, err
	}
	for _, n := range s.acts {
		v.acts += n
	}
	v.mismatches = append(v.mismatches, s.notes.failures...)
	return v, nil
}

// compareCounters holds the numbers of jobs to a recount.
func (v *crawlVerdict) compareCounters(r *crawlRecord) {
	there := map[string]int{}
	for _, j := range r.jobs {
		there[j.status]++
	}
	for _, status := range job.Statuses {
		if r.counted[status] != there[status] {
			v.wrong("%d jobs are counted as %s, and %d are", r.counted[status], status, there[status])
		}
	}
}

// limit is how many runs of a source's job may be at one time; 0: any number.
type limit struct {
	most    int
	cancels bool // a new run takes the place of others
}

func (s *crawls) limits() map[string]limit {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]limit{}
	for id, c := range s.known {
		l := limit{c.most, c.set && c.overlap == "cancel_other"}
		switch {
		case !c.set:
			l.most = mostAtFirst
		case c.overlap == "allow":
			l.most = 0
		}
		all[id] = l
	}
	return all
}

// compareAcks holds the moves of the items to what was acknowledged to workers.
func (s *crawls) compareAcks(ctx context.Context, v *crawlVerdict, r *crawlRecord) error {
	moves := &workRecord{done: map[piece]int{}, said: map[end]int{}, now: map[piece]string{}}
	err := s.dsn.history(ctx, &v.workVerdict, moves, `SELECT 'item', h.item_id, h.stage, h.move::text, h.status::text,
		coalesce(h.worker, '')
		FROM millrace.history AS h JOIN millrace.item AS i ON i.id = h.item_id WHERE i.key LIKE 'run:%'
		ORDER BY h.id`, func(int) string { return crawlQueue })
	if err != nil {
		return fmt.Errorf("read the history of runs: %w", err)
	}
	v.compareEnds(s.notes, moves)
	v.acked = v.workVerdict.acked
	ofItem := map[int]*runRow{}
	for _, run := range r.runs {
		ofItem[run.item] = run
	}
	for _, e := range s.notes.ends {
		run := ofItem[e.shard]
		if want := map[string]string{"done": "success", "fail": "failed"}[e.move]; run == nil || want != "" &&
			run.status != want {
			v.wrong("%s was told of %v that it is %s, and the run is %+v", e.worker, e.piece, e.move, run)
		}
	}
	return nil
}

// audit holds the product's own audit to having found nothing, and to have counted
// what was recounted.
func (s *crawls) audit(ctx context.Context, v *crawlVerdict) error {
	window := url.Values{
		"from": {s.begin.Add(-4 * farthestPostgres).UTC().Format(time.RFC3339)},
		"to":   {s.begin.Add(4 * farthestPostgres).UTC().Format(time.RFC3339)},
	}
	body, err := fetch(ctx, http.MethodGet, "http://"+s.query+"/api/v1/jobs/audit?"+window.Encode(), "")
	if err != nil {
		return fmt.Errorf("audit jobs: %w", err)
	}
	var got struct {
		Due, Missed, Doubled, Forced, Pending int
		Findings                              []json.RawMessage
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("the audit: %w: %.300s", err, body)
	}
	if got.Missed > 0 || got.Doubled > 0 {
		v.wrong("the audit says missed %d, doubled %d: %s", got.Missed, got.Doubled,
			got.Findings[:min(3, len(got.Findings))])
	}
	// Due times have come between the recount and the audit, of jobs that are paused.
	if got.Due-got.Pending < v.due {
		v.wrong("the audit knows %d due times that are decided, and recounted are %d", got.Due-got.Pending, v.due)
	}
	return nil
}
