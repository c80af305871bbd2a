package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/millrace-io/millrace/schemas/job"
)

// crawlRecord is what Postgres says of jobs, at one moment.
type crawlRecord struct {
	now     time.Time
	jobs    map[string]*jobRow
	counted map[string]int // jobs by their status, as the database counts them
	plans   []planRow      // by job, in the order in which they counted
	ledger  []ledgerRow
	runs    map[string]*runRow
	sources map[string]map[string]any
}

// jobRow is a job.
type jobRow struct {
	source, status, pausedBy string
	running                  int
	next                     time.Time // the first due time that is not decided
	fields                   map[string]any
}

// planRow is a schedule that a job had for some time.
type planRow struct {
	job      string
	from     time.Time
	to       *time.Time // nil: it counts still
	anchor   *time.Time
	interval int // minutes
	cron     string
}

// ledgerRow is what became of a due time.
type ledgerRow struct {
	job     string
	due     time.Time
	outcome string
	forced  bool
	run     string // empty: there is none
}

// runRow is a run with its item. The moves of items are in an order that no clock
// decides: a run begins when its item is registered, is worked from when that is first
// started, and ends when that ends.
type runRow struct {
	job, source, status string
	due                 time.Time
	item                int // 0: there is none
	itemStatus          string
	begins, works, ends int64 // 0: it has not
	begunBy, endedBy    string
}

// readCrawls reads all of it.
func (s *crawls) readCrawls(ctx context.Context) (*crawlRecord, error) {
	r := &crawlRecord{
		jobs: map[string]*jobRow{}, counted: map[string]int{}, runs: map[string]*runRow{},
		sources: map[string]map[string]any{},
	}
	return r, s.dsn.snapshot(ctx, func(from querier) error {
		for _, read := range []func(context.Context, querier) error{
			r.readJobs, r.readCounters, r.readPlans, r.readLedger, r.readRuns, r.readSources,
		} {
			if err := read(ctx, from); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *crawlRecord) readJobs(ctx context.Context, from querier) error {
	var id, fields string
	var j jobRow
	if err := query(ctx, from, "SELECT now()", []any{&r.now}, func() error { return nil }); err != nil {
		return err
	}
	return query(ctx, from, `SELECT id::text, source_id::text, status, coalesce(paused_by, ''), running, next_run_at,
		json_build_object('name', source_name, 'url', url, 'rate_limit', rate_limit, 'max_depth', max_depth)::text
		FROM millrace.jobs`,
		[]any{&id, &j.source, &j.status, &j.pausedBy, &j.running, &j.next, &fields}, func() error {
			row := j
			r.jobs[id] = &row
			return json.Unmarshal([]byte(fields), &row.fields)
		})
}

func (r *crawlRecord) readCounters(ctx context.Context, from querier) error {
	var place, n int
	return query(ctx, from, `SELECT key % 10, sum(n)::integer FROM (
			SELECT kind, key, n FROM millrace.tally UNION ALL SELECT kind, key, n FROM millrace.tally_delta
		) AS t WHERE kind = 900 GROUP BY 1`, []any{&place, &n}, func() error {
		r.counted[job.Statuses[place]] = n
		return nil
	})
}

func (r *crawlRecord) readPlans(ctx context.Context, from querier) error {
	var p planRow
	return query(ctx, from, `SELECT job_id::text, from_at, to_at, anchor_at, coalesce(interval_minutes, 0),
		coalesce(cron, '') FROM millrace.job_schedule ORDER BY job_id, version`,
		[]any{&p.job, &p.from, &p.to, &p.anchor, &p.interval, &p.cron}, func() error {
			r.plans = append(r.plans, p)
			return nil
		})
}

func (r *crawlRecord) readLedger(ctx context.Context, from querier) error {
	var l ledgerRow
	return query(ctx, from, `SELECT job_id::text, due_at, outcome, forced, coalesce(execution_id::text, '')
		FROM millrace.job_ledger`, []any{&l.job, &l.due, &l.outcome, &l.forced, &l.run}, func() error {
		r.ledger = append(r.ledger, l)
		return nil
	})
}

func (r *crawlRecord) readRuns(ctx context.Context, from querier) error {
	var id string
	var row runRow
	err := query(ctx, from, `SELECT e.id::text, e.job_id::text, e.source_id::text, e.status, e.due_at,
		coalesce(e.item_id, 0), coalesce(i.status::text, ''),
		coalesce(first.id, 0), coalesce(first.tx::text, ''), coalesce(last.id, 0), coalesce(last.tx::text, ''),
		coalesce((SELECT min(id) FROM millrace.history WHERE item_id = e.item_id AND move = 'start'), 0)
		FROM millrace.executions AS e LEFT JOIN millrace.item AS i ON i.id = e.item_id
		LEFT JOIN LATERAL (SELECT id, tx FROM millrace.history WHERE item_id = e.item_id ORDER BY id LIMIT 1)
			AS first ON true
		LEFT JOIN LATERAL (SELECT id, tx FROM millrace.history WHERE item_id = e.item_id
			AND status IN ('done', 'failed') ORDER BY id LIMIT 1) AS last ON true`,
		[]any{
			&id, &row.job, &row.source, &row.status, &row.due, &row.item, &row.itemStatus,
			&row.begins, &row.begunBy, &row.ends, &row.endedBy, &row.works,
		}, func() error {
			run := row
			r.runs[id] = &run
			return nil
		})
	return err
}

func (r *crawlRecord) readSources(ctx context.Context, from querier) error {
	var id, text string
	return query(ctx, from, "SELECT id::text, row_to_json(s)::text FROM millrace.source AS s", []any{&id, &text},
		func() error {
			var fields map[string]any
			err := json.Unmarshal([]byte(text), &fields)
			r.sources[id] = fields
			return err
		})
}
