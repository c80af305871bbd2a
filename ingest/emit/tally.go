package emit

import (
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/millrace-io/millrace/client"
	"github.com/millrace-io/millrace/schemas/event"
)

// tally counts, reports rejected lines and draws the bar. It is safe for
// concurrent use.
type tally struct {
	mu      sync.Mutex
	report  Report
	faults  faults
	rejects io.Writer
	failed  error                    // of writing to rejects
	bar     *progressbar.ProgressBar // nil: none
	log     *slog.Logger             // of the progress, without a bar
	size    int64                    // of the input in bytes; 0: unknown
	bytes   int64                    // of it that are settled
	told    time.Time                // when the log got its last line
	pause   time.Duration            // until the next
}

// The log gets a line after firstPause, and then at intervals that double up to
// longPause.
const (
	firstPause = 2 * time.Second
	longPause  = time.Minute
)

func newTally(cfg Config) *tally {
	t := &tally{
		faults: faults{out: cfg.Errors, rules: map[ruleKey]*brokenRule{}}, rejects: cfg.Rejects, log: cfg.Log, size: cfg.Size, told: time.Now(),
		pause: firstPause,
	}
	if cfg.Progress != nil {
		size := cfg.Size
		if size == 0 {
			size = -1 // a spinner
		}
		t.bar = progressbar.NewOptions64(
			size, progressbar.OptionSetWriter(cfg.Progress), progressbar.OptionSetDescription("emit"),
			progressbar.OptionShowBytes(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
		)
	}
	return t
}

// reject counts a line that is not published, and the rules that it breaks.
func (t *tally) reject(line int, text []byte, broken ...event.Invalid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.report.Rejected++
	t.faults.add(line, broken)
	if text != nil && t.failed == nil {
		if _, err := fmt.Fprintf(t.rejects, "%s\n", text); err != nil {
			t.failed = fmt.Errorf("emit: write rejected line %d: %w", line, err)
		}
	}
}

// published counts events with their outcomes.
func (t *tally) published(outcomes []client.Outcome, bytes int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, o := range outcomes {
		switch o.Status {
		case client.Accepted:
			t.report.Accepted++
		case client.Duplicate:
			t.report.Duplicates++
		case client.Failed: // counted as rejected, or the end of the run
		}
	}
	t.bytes += bytes
	t.progress()
}

// progress draws the bar, or logs a line when it is time.
func (t *tally) progress() {
	if t.bar != nil {
		t.bar.Describe(fmt.Sprintf("emit: %d events, %d rejected", t.report.Accepted+t.report.Duplicates,
			t.report.Rejected))
		_ = t.bar.Set64(t.bytes)
		return
	}
	if time.Since(t.told) < t.pause {
		return
	}
	t.told, t.pause = time.Now(), min(2*t.pause, longPause)
	args := []any{"accepted", t.report.Accepted, "duplicates", t.report.Duplicates, "rejected", t.report.Rejected}
	if t.size > 0 {
		args = append(args, "percent", 100*t.bytes/t.size)
	}
	t.log.Info("publishing events", args...)
}

func (t *tally) finish() (Report, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bar != nil {
		_ = t.bar.Finish()
	}
	t.faults.summarize()
	return t.report, t.failed
}
