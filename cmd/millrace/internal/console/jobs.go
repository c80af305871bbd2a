package console

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// JobsCmd are the commands on jobs.
type JobsCmd struct {
	List      JobsListCmd      `cmd:"" default:"withargs" help:"List the jobs with their status, health and next run, in the order in which they were made."`
	Reconcile JobsReconcileCmd `cmd:"" help:"Compare sources and jobs, and mend the differences."`
	Migrate   JobsMigrateCmd   `cmd:"" help:"Have jobs that were made by hand follow their sources. From then on no job is made by hand."`
	Audit     JobsAuditCmd     `cmd:"" help:"Compare what became of the due times of jobs with what their schedules say. Fails with status 3 when one was missed or doubled."`
}

// JobsListCmd lists jobs.
type JobsListCmd struct {
	Server `embed:"" group:"Server"`
	Search string `help:"Only jobs of sources with this in their name or URL." placeholder:"news"`
	Status string `help:"Only jobs in this status." enum:",pending,running,paused,failed,orphaned" default:"" placeholder:"paused"`
	Health string `help:"Only jobs of this health." enum:",healthy,warning,failed,unknown" default:"" placeholder:"failed"`
	Limit  int    `help:"How many jobs at most; 0: all." default:"100"`
	JSON   bool   `help:"Print a line of JSON for each job."`
}

// Validate makes a wrong limit bad usage.
func (c *JobsListCmd) Validate() error {
	return checkLimit(c.Limit)
}

// Run lists jobs.
func (c *JobsListCmd) Run(con *Console) error {
	query := notEmpty(map[string]string{"q": c.Search, "status": c.Status, "health": c.Health})
	return jobList.print(con, c.Server, query, c.Limit, c.JSON)
}

// listedJob is what the commands read of a job in a list.
type listedJob struct {
	ID         string     `json:"id"`
	SourceName string     `json:"source_name"`
	URL        string     `json:"url"`
	Status     string     `json:"status"`
	NextRunAt  *time.Time `json:"next_run_at"`
	Health     struct {
		Status    string     `json:"status"`
		LastRunAt *time.Time `json:"last_run_at"`
	} `json:"health"`
}

var jobList = listed[listedJob]{
	"/jobs", "items", "job",
	[]string{"JOB", "SOURCE", "STATUS", "HEALTH", "LAST RUN", "NEXT RUN", "URL"},
	func(j listedJob) []any {
		return []any{
			j.ID, j.SourceName, j.Status, j.Health.Status, orNone(j.Health.LastRunAt), orNone(j.NextRunAt), j.URL,
		}
	},
}

// orNone is a time as lists show it.
func orNone(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// PartialError is the error of a command that has done its work, and found something
// wrong.
type PartialError struct{ Found string }

func (e *PartialError) Error() string { return e.Found }

// JobsAuditCmd audits the ledger.
type JobsAuditCmd struct {
	Server `embed:"" group:"Server"`
	From   Moment `help:"Due times at or after this time: RFC 3339, or a duration before now." default:"24h" placeholder:"24h"`
	To     Moment `help:"Due times before this time; default now." placeholder:"2026-02-10T00:00:00Z"`
	JSON   bool   `help:"Print JSON."`
}

// audited is what an audit has found.
type audited struct {
	From     time.Time        `json:"from"`
	To       time.Time        `json:"to"`
	Jobs     int64            `json:"jobs"`
	Due      int64            `json:"due"`
	Outcomes map[string]int64 `json:"outcomes"`
	Pending  int64            `json:"pending"`
	Forced   int64            `json:"forced"`
	Missed   int64            `json:"missed"`
	Doubled  int64            `json:"doubled"`
	Findings []struct {
		Kind  string    `json:"kind"`
		JobID string    `json:"job_id"`
		DueAt time.Time `json:"due_at"`
		Why   string    `json:"why"`
	} `json:"findings"`
}

// Run prints what the audit has found, and fails when that is a fault.
func (c *JobsAuditCmd) Run(con *Console) error {
	to := c.To
	if to.IsZero() {
		to.Time = time.Now()
	}
	found, err := answered(con, c.JSON, func(ctx context.Context, out any) error {
		return c.get(ctx, "/jobs/audit", url.Values{"from": {c.From.parameter()}, "to": {to.parameter()}}, out)
	}, audited.write)
	if err == nil && found.Missed+found.Doubled > 0 {
		err = &PartialError{fmt.Sprintf("%d missed, %d doubled", found.Missed, found.Doubled)}
	}
	return err
}

func (a audited) write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s of %s, from %s to %s\n", many(a.Due, "due time", "due times"), many(a.Jobs, "job", "jobs"),
		a.From.Format(time.RFC3339), a.To.Format(time.RFC3339))
	for _, outcome := range slices.Sorted(maps.Keys(a.Outcomes)) {
		fmt.Fprintf(&b, "  %-15s %d\n", Plain(outcome), a.Outcomes[outcome])
	}
	if a.Pending > 0 {
		fmt.Fprintf(&b, "  %-15s %d\n", "not yet decided", a.Pending)
	}
	if a.Forced > 0 {
		fmt.Fprintf(&b, "%s beside, which somebody asked for\n", many(a.Forced, "run", "runs"))
	}
	for _, f := range a.Findings {
		fmt.Fprintf(&b, "%s: job %s, due at %s: %s\n", Plain(f.Kind), Plain(f.JobID),
			f.DueAt.Format(time.RFC3339), Plain(f.Why))
	}
	fmt.Fprintf(&b, "%d missed, %d doubled\n", a.Missed, a.Doubled)
	_, err := io.WriteString(w, b.String())
	return err
}

// JobsReconcileCmd compares sources and jobs.
type JobsReconcileCmd struct {
	Server `embed:"" group:"Server"`
	DryRun bool `help:"Change nothing, and print what would be done." name:"dry-run"`
	JSON   bool `help:"Print JSON."`
}

// Run prints what has been done, or would be.
func (c *JobsReconcileCmd) Run(con *Console) error {
	return answer(con, c.JSON, func(ctx context.Context, out any) error {
		return c.post(ctx, "/jobs/reconcile", map[string]bool{"dry_run": c.DryRun}, out)
	}, c.write)
}

// reconciled are the differences that were found.
type reconciled struct {
	Differences []struct {
		Action     string `json:"action"`
		SourceID   string `json:"source_id"`
		SourceName string `json:"source_name"`
	} `json:"differences"`
}

func (c *JobsReconcileCmd) write(done reconciled, w io.Writer) error {
	var b strings.Builder
	for _, d := range done.Differences {
		fmt.Fprintf(&b, "%s: source %s, %s\n", Plain(d.Action), Plain(d.SourceID), Plain(d.SourceName))
	}
	does := "mended"
	if c.DryRun {
		does = "to be mended"
	}
	fmt.Fprintf(&b, "%s %s\n", many(int64(len(done.Differences)), "difference", "differences"), does)
	_, err := io.WriteString(w, b.String())
	return err
}
