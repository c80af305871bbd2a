package job

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
)

// Statuses of a job.
const (
	Pending  = "pending"  // waits for its next run, or for a worker that takes it
	Running  = "running"  // a worker has a run
	Paused   = "paused"   // does not run
	Failed   = "failed"   // FailedAfter runs in a row have failed; it runs again after each backoff
	Orphaned = "orphaned" // its source does not exist
)

// Statuses are all statuses of jobs.
var Statuses = []string{Pending, Running, Paused, Failed, Orphaned}

// FailedAfter is how many failures in a row make a job's status failed.
const FailedAfter = 5

// Who has paused a job.
const (
	ByUser   = "user"
	BySource = "source" // it is disabled
)

// Origins of jobs.
const (
	FromEvent          = "event"
	FromReconciliation = "reconciliation"
	Manual             = "manual"
)

// Status of a job that is neither paused nor orphaned, by how many of its runs workers
// have and how many in a row have failed.
func Status(running, failures int) string {
	switch {
	case running > 0:
		return Running
	case failures >= FailedAfter:
		return Failed
	}
	return Pending
}

// Job is a job as people see it.
type Job struct {
	ID            uuid.UUID       `json:"id" format:"uuid"`
	SourceID      uuid.UUID       `json:"source_id" format:"uuid"`
	SourceName    string          `json:"source_name" example:"Example News"`
	URL           string          `json:"url" example:"https://example.com"`
	RateLimit     int             `json:"rate_limit" doc:"Requests a second that the source allows"`
	MaxDepth      int             `json:"max_depth" doc:"How many links away from its URL the source is crawled"`
	Selectors     json.RawMessage `json:"selectors" doc:"Where its pages have their parts: a JSON object"`
	Status        string          `json:"status" enum:"pending,running,paused,failed,orphaned"`
	PausedBy      string          `json:"paused_by,omitempty" enum:"user,source" doc:"Of a paused job: who paused it; source: it is disabled"`
	AutoManaged   bool            `json:"auto_managed" doc:"Whether its settings follow those of its source"`
	Origin        string          `json:"origin" enum:"event,reconciliation,manual" doc:"What made it"`
	MigratedAt    *time.Time      `json:"migrated_at" doc:"When a manual job became auto-managed"`
	Schedule      CrawlSchedule   `json:"schedule"`
	Settings                      // what counts: as people have set it, or else computed
	IntervalType  string          `json:"interval_type" enum:"minutes,hours" doc:"The unit to show the interval in"`
	Override      Overrides       `json:"override" doc:"The settings that people have set"`
	NextRunAt     *time.Time      `json:"next_run_at" doc:"Its next due time, or the end of its backoff where it runs then; null: it does not run, while it is paused or orphaned"`
	ForcedAt      *time.Time      `json:"forced_at" doc:"When somebody asked for a run that has not begun yet"`
	SkipNext      bool            `json:"skip_next" doc:"Whether the next due time is skipped, since somebody asked for it"`
	RunningCount  int             `json:"running" doc:"How many of its runs workers have"`
	QueuedCount   int             `json:"queued" doc:"How many of its runs wait in the queue for a worker"`
	FailureCount  int             `json:"failure_count" doc:"How many runs in a row have failed"`
	LastFailureAt *time.Time      `json:"last_failure_at"`
	BackoffUntil  *time.Time      `json:"backoff_until" doc:"It does not run before, since runs have failed"`
	Version       int64           `json:"version" doc:"Grows with each change by an event or a person"`
	CreatedAt     time.Time       `json:"created_at"`
	UpdatedAt     time.Time       `json:"updated_at"`
}

// CrawlSchedule is when a job is due.
type CrawlSchedule struct {
	Kind     string `json:"kind" enum:"interval,cron"`
	Cron     string `json:"cron,omitempty" example:"0 6 * * 1-5"`
	TimeZone string `json:"time_zone" doc:"Of the cron expression" example:"UTC"`
}
