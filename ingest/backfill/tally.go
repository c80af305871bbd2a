package backfill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/millrace-io/millrace/ingest/history"
)

// Report counts what became of a table's rows.
type Report struct {
	Table   string
	DryRun  bool
	From    time.Time // where the run began; zero: at the beginning
	Until   time.Time
	Resumed int64 // rows that earlier runs had done
	Rows    int64
	Events  map[string]int64 // published, or that would be, by stage
	Skipped int64            // rows that became no event, or not all they would
	Untimed int64            // rows without a time, which are not read
	Unended int64            // of the skipped ones, executions that were under way
	Took    time.Duration
	stages  []string
}

func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: rows=%d", r.Table, r.Rows)
	total := int64(0)
	for _, stage := range r.stages {
		fmt.Fprintf(&b, " %s=%d", stage, r.Events[stage])
		total += r.Events[stage]
	}
	fmt.Fprintf(&b, " skipped=%d", r.Skipped+r.Untimed)
	if r.Unended > 0 {
		fmt.Fprintf(&b, " (%d under way)", r.Unended)
	}
	if r.Untimed > 0 {
		fmt.Fprintf(&b, " (%d without a time)", r.Untimed)
	}
	fmt.Fprintf(&b, " (%.0f events/s in %s)", float64(total)/max(r.Took.Seconds(), 1e-9),
		r.Took.Round(time.Millisecond))
	if !r.From.IsZero() {
		fmt.Fprintf(&b, ", resumed at %s after %d rows", r.From.Format(time.RFC3339), r.Resumed)
	}
	fmt.Fprintf(&b, ", until %s", r.Until.Format(time.RFC3339))
	if r.DryRun {
		b.WriteString("; dry run, nothing is published")
	}
	return b.String()
}

// shownRejects is how many rows are reported in full.
const shownRejects = 20

// tally counts, reports rows and draws the bar. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	report   Report
	errors   io.Writer
	progress io.Writer
	bar      *progressbar.ProgressBar // nil: none
}

func newTally(cfg Config, src *history.Source) *tally {
	return &tally{errors: cfg.Errors, progress: cfg.Progress, report: Report{
		Table: src.Name, DryRun: cfg.DryRun, Events: map[string]int64{}, stages: src.Stages,
	}}
}

// begin looks at what is to be done.
func (t *tally) begin(ctx context.Context, src *history.Source, rest history.Span, at cursor) error {
	untimed, err := src.Untimed(ctx)
	if err != nil {
		return err
	}
	t.report.Untimed, t.report.Until, t.report.From, t.report.Resumed = untimed, rest.Until, at.At, at.Rows
	if t.progress == nil {
		return nil
	}
	totals, err := src.Count(ctx, rest)
	if err != nil {
		return err
	}
	t.bar = progressbar.NewOptions64(
		max(totals.Rows, 1), progressbar.OptionSetWriter(t.progress), progressbar.OptionSetDescription(src.Name),
		progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("rows"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
	)
	return nil
}

func (t *tally) reject(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Skipped++
	if errors.Is(err, errRunning) {
		t.report.Unended++
	}
	if t.report.Skipped <= shownRejects {
		_, _ = fmt.Fprintf(t.errors, "%s: %v\n", what, err)
	}
}

// published counts a chunk that is done.
func (t *tally) published(c *chunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, stage := range c.stages {
		if stage != "" {
			t.report.Events[stage]++
		}
	}
	t.report.Rows += int64(c.rows)
	if t.bar != nil {
		_ = t.bar.Add64(int64(c.rows))
	}
}

func (t *tally) finish() Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Finish()
	}
	if more := t.report.Skipped - shownRejects; more > 0 {
		_, _ = fmt.Fprintf(t.errors, "and %d more\n", more)
	}
	return t.report
}
