package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/millrace-io/millrace/internal/schedule"
)

// Listed is how many findings of a kind a report has at most. All are counted.
const Listed = 100

// JobAudit is what an audit has found.
type JobAudit struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Jobs int64     `json:"jobs" doc:"Jobs with a schedule in that time, also those that were deleted since"`
	// Due counts the due times that the schedules say.
	Due      int64            `json:"due" doc:"Due times by the schedules"`
	Outcomes map[string]int64 `json:"outcomes" doc:"What became of them, by the ledger"`
	Pending  int64            `json:"pending" doc:"Due times about which no scheduler has decided yet"`
	Forced   int64            `json:"forced" doc:"Runs that somebody asked for, which no schedule says"`
	Missed   int64            `json:"missed" doc:"Due times without a row in the ledger, or that ran without a run"`
	Doubled  int64            `json:"doubled" doc:"Due times with more than one run, and rows that no schedule says"`
	Findings []AuditFinding   `json:"findings" nullable:"false" doc:"The first 100 of those missed, and of those doubled"`
}

// AuditFinding is a due time that was missed or doubled.
type AuditFinding struct {
	Kind  string    `json:"kind" enum:"missed,doubled"`
	JobID uuid.UUID `json:"job_id" format:"uuid"`
	DueAt time.Time `json:"due_at"`
	Why   string    `json:"why"`
}

// Sound tells whether nothing was missed or doubled.
func (r *JobAudit) Sound() bool { return r.Missed == 0 && r.Doubled == 0 }

func (r *JobAudit) find(kind string, count *int64, job uuid.UUID, due time.Time, why string) {
	if *count++; *count <= Listed {
		r.Findings = append(r.Findings, AuditFinding{kind, job, due.UTC(), why})
	}
}

// version is a schedule of a job, and up to when the job's due times are decided.
type version struct {
	job     uuid.UUID
	from    time.Time
	to      time.Time
	spec    schedule.Spec
	decided *time.Time // nil: the job was deleted, and its schedules end where it ended
}

// entry is a row of the ledger.
type entry struct {
	job     uuid.UUID
	due     time.Time
	outcome string
	forced  bool
	runs    int64
}

// versionsSQL ends where the due times are decided, or now where that is later: the
// clock may have been set back since. The schedules of a job that was deleted end where
// it was decided.
const versionsSQL = `SELECT s.job_id, GREATEST(s.from_at, $1),
		LEAST(s.to_at, $2, CASE WHEN j.id IS NOT NULL THEN GREATEST(now() + interval '1 microsecond', j.next_run_at) END),
		coalesce(s.anchor_at, s.from_at), coalesce(s.interval_minutes, 0), coalesce(s.cron, ''), s.time_zone,
			j.next_run_at
	FROM millrace.job_schedule AS s LEFT JOIN millrace.jobs AS j ON j.id = s.job_id
	WHERE s.from_at < $2 AND (s.to_at IS NULL OR s.to_at > $1)
	ORDER BY s.job_id, s.version`

// entriesSQL puts rows and runs side by side by sorting them: a join is as slow as
// what the database does not know of the tables.
const entriesSQL = `SELECT job_id, due_at, coalesce(max(outcome), ''), coalesce(bool_or(forced), false),
	count(*) FILTER (WHERE run)
	FROM (
		SELECT job_id, due_at, outcome, forced, false AS run FROM millrace.job_ledger WHERE due_at >= $1 AND due_at < $2
		UNION ALL
		SELECT job_id, due_at, NULL, NULL, true FROM millrace.executions
		WHERE due_at >= $1 AND due_at < $2 AND NOT forced
	) AS u
	GROUP BY job_id, due_at ORDER BY job_id, due_at`

// Audit compares the ledger with the schedules over a time, its end not included, in
// one snapshot. Its memory does not grow with what is compared.
func Audit(ctx context.Context, pool *pgxpool.Pool, from, to time.Time) (*JobAudit, error) {
	r := &JobAudit{From: from.UTC(), To: to.UTC(), Outcomes: map[string]int64{}, Findings: []AuditFinding{}}
	readers := [2]*pgxpool.Conn{}
	for i := range readers {
		c, err := pool.Acquire(ctx)
		if err != nil {
			return nil, fmt.Errorf("audit the ledger: %w", err)
		}
		defer c.Release()
		readers[i] = c
	}
	err := snapshot(ctx, readers, func(schedules, ledger pgx.Tx) error {
		return r.compare(ctx, schedules, ledger)
	})
	if err != nil {
		return nil, fmt.Errorf("audit the ledger: %w", err)
	}
	return r, nil
}

// snapshot opens two transactions that see the same.
func snapshot(ctx context.Context, conns [2]*pgxpool.Conn, do func(a, b pgx.Tx) error) error {
	const patient = "SET LOCAL idle_in_transaction_session_timeout = 0" // one waits for the other
	opts := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, conns[0], opts, func(a pgx.Tx) error {
		var name string
		if _, err := a.Exec(ctx, patient); err != nil {
			return err
		}
		if err := a.QueryRow(ctx, "SELECT pg_export_snapshot()").Scan(&name); err != nil {
			return err
		}
		return pgx.BeginTxFunc(ctx, conns[1], opts, func(b pgx.Tx) error {
			if _, err := b.Exec(ctx, "SET TRANSACTION SNAPSHOT '"+name+"'; "+patient); err != nil {
				return err
			}
			return do(a, b)
		})
	})
}

// compare merges the due times by the schedules with the rows of the ledger.
func (r *JobAudit) compare(ctx context.Context, schedules, ledger pgx.Tx) error {
	rows, err := ledger.Query(ctx, entriesSQL, r.From, r.To)
	if err != nil {
		return err
	}
	defer rows.Close()
	entries := &reader{rows: rows}
	if err := entries.next(); err != nil {
		return err
	}
	versions, err := schedules.Query(ctx, versionsSQL, r.From, r.To)
	if err != nil {
		return err
	}
	defer versions.Close()
	var last uuid.UUID
	for versions.Next() {
		v, err := scanVersion(versions)
		if err != nil {
			return err
		}
		if v.job != last {
			last = v.job
			r.Jobs++
		}
		if err := r.job(v, entries); err != nil {
			return err
		}
	}
	if err := versions.Err(); err != nil {
		return err
	}
	for entries.has { // of jobs whose schedules have ended
		if err := r.extra(entries); err != nil {
			return err
		}
	}
	return nil
}

// scanVersion reads a schedule, and more after it.
func scanVersion(row pgx.Row, more ...any) (v version, err error) {
	var anchor time.Time
	var minutes int
	var cron, zone string
	to := []any{&v.job, &v.from, &v.to, &anchor, &minutes, &cron, &zone, &v.decided}
	err = row.Scan(append(to, more...)...)
	if v.spec = (schedule.Spec{Cron: cron, Zone: zone}); cron == "" {
		v.spec = schedule.Spec{Interval: time.Duration(minutes) * time.Minute, Anchor: anchor}
	}
	return v, err
}

// job compares what one schedule says.
func (r *JobAudit) job(v version, entries *reader) error {
	recurring, broken := v.spec.Compile()
	if broken != nil {
		return fmt.Errorf("the schedule of the job %s: %w", v.job, &broken[0])
	}
	due := recurring.Next(v.from.Add(-time.Microsecond))
	for ; !due.IsZero() && due.Before(v.to); due = recurring.Next(due) {
		for entries.before(v.job, due) {
			if err := r.extra(entries); err != nil {
				return err
			}
		}
		switch e := entries.entry; {
		case entries.has && e.job == v.job && e.due.Equal(due) && !e.forced:
			r.Due++
			r.take(e)
			if err := entries.next(); err != nil {
				return err
			}
		case v.decided != nil && !due.Before(*v.decided):
			r.Due++
			r.Pending++
		default:
			r.Due++
			r.find("missed", &r.Missed, v.job, due, "the ledger has no row")
		}
	}
	return nil
}

func (r *JobAudit) take(e entry) {
	if e.outcome == "" {
		r.find("doubled", &r.Doubled, e.job, e.due, "there is a run, and the ledger has no row")
		return
	}
	r.Outcomes[e.outcome]++
	ran := e.outcome == schedule.Ran || e.outcome == schedule.CaughtUp
	switch {
	case ran && e.runs == 0:
		r.find("missed", &r.Missed, e.job, e.due, "it ran by the ledger, and there is no run")
	case e.runs > 1, !ran && e.runs > 0:
		r.find("doubled", &r.Doubled, e.job, e.due, fmt.Sprintf("it is %s by the ledger, and there are %d runs",
			e.outcome, e.runs))
	}
}

// extra takes a row that no schedule says.
func (r *JobAudit) extra(entries *reader) error {
	if e := entries.entry; e.forced {
		r.Forced++
	} else {
		r.find("doubled", &r.Doubled, e.job, e.due, "no schedule of the job says this due time")
	}
	return entries.next()
}

// reader reads the ledger.
type reader struct {
	rows pgx.Rows
	entry
	has bool
}

func (r *reader) next() error {
	if r.has = r.rows.Next(); !r.has {
		return r.rows.Err()
	}
	return r.rows.Scan(&r.job, &r.due, &r.outcome, &r.forced, &r.runs)
}

// before tells whether the row is of before a due time of a job, in the order of the
// ledger.
func (r *reader) before(job uuid.UUID, due time.Time) bool {
	if !r.has {
		return false
	}
	switch order := compare(r.job, job); {
	case order != 0:
		return order < 0
	case r.due.Equal(due):
		return r.forced
	default:
		return r.due.Before(due)
	}
}

func compare(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
