package job

import (
	"math"
	"time"

	"github.com/google/uuid"
)

// Healths of jobs.
const (
	Healthy = "healthy"
	Warning = "warning"
	Unknown = "unknown"
	// Failed is another; its text is that of the status.
)

// Thresholds of health.
const (
	// UnhealthyAfter is how many failures in a row make a job failed to people.
	UnhealthyAfter = 3
	// LeastSuccess is the part of the runs of a day that has to succeed.
	LeastSuccess = 0.9
)

// HealthOf is failed for a job whose source does not exist, or of which
// UnhealthyAfter runs in a row have failed; warning for one whose last run has
// failed, or of whose runs of the last 24 hours less than LeastSuccess have
// succeeded; unknown for one of which no run has ended with success or failed; else healthy.
func HealthOf(status string, ended bool, failuresInARow int, runs, failures int64) string {
	switch {
	case status == Orphaned || failuresInARow >= UnhealthyAfter:
		return Failed
	case failuresInARow > 0 || runs > 0 && float64(runs-failures) < LeastSuccess*float64(runs):
		return Warning
	case !ended && runs == 0:
		return Unknown
	}
	return Healthy
}

// CrawlHealth is how a job has done.
type CrawlHealth struct {
	Status      string     `json:"status" enum:"healthy,warning,failed,unknown" doc:"failed: 3 runs in a row have failed, or its source does not exist; warning: the last run has failed, or less than 90 % of the last 24 hours' runs have succeeded; unknown: no run has ended yet"`
	LastRunAt   *time.Time `json:"last_run_at" doc:"When a worker took its last run; null: none has"`
	LastStatus  *string    `json:"last_run_status" enum:"queued,running,success,failed,cancelled"`
	Runs        int64      `json:"last_24h_runs" doc:"Runs that ended with success or failed within 24 hours"`
	Failures    int64      `json:"last_24h_failures"`
	Articles    int64      `json:"last_24h_articles"`
	SuccessRate *float64   `json:"success_rate" doc:"Of these runs, in thousandths; null: there are none" example:"0.979"`
	AvgDuration *float64   `json:"avg_duration_seconds" doc:"Of these runs; null: there are none" example:"12.3"`
}

// Rate is the part of runs that have not failed, rounded to thousandths; nil of none.
func Rate(runs, failures int64) *float64 {
	if runs == 0 {
		return nil
	}
	rate := math.Round(float64(runs-failures)/float64(runs)*1000) / 1000
	return &rate
}

// Execution is a run of a job.
type Execution struct {
	ID          uuid.UUID  `json:"id" format:"uuid"`
	JobID       uuid.UUID  `json:"job_id" format:"uuid"`
	SourceID    uuid.UUID  `json:"source_id" format:"uuid"`
	DueAt       time.Time  `json:"due_at" doc:"The due time that it is for"`
	Forced      bool       `json:"forced" doc:"Whether somebody asked for it"`
	Attempt     int        `json:"attempt"`
	Status      string     `json:"status" enum:"queued,running,success,failed,cancelled"`
	QueuedAt    time.Time  `json:"queued_at"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	Articles    int        `json:"articles_count"`
	Duration    *float64   `json:"duration_seconds"`
	Error       string     `json:"error,omitempty" doc:"Why it failed or was cancelled, or, while it is queued, why its last attempt failed; of a success, which member of the result counts for nothing, and why"`
	ItemID      *int64     `json:"item_id" doc:"Its item in the queue crawl"`
}

// Decision is what became of a due time.
type Decision struct {
	DueAt       time.Time  `json:"due_at"`
	Outcome     string     `json:"outcome" enum:"ran,caught_up,buffered,skipped,coalesced,outside_window,backoff,paused,expired"`
	Forced      bool       `json:"forced" doc:"Whether somebody asked for the run"`
	ExecutionID *uuid.UUID `json:"execution_id" doc:"The run, if there was one"`
	Reason      string     `json:"reason" doc:"Why, in words"`
	DecidedAt   time.Time  `json:"decided_at"`
}

// ProcessedEvent is what became of an event about a source.
type ProcessedEvent struct {
	EventID     uuid.UUID  `json:"event_id" format:"uuid"`
	EventType   string     `json:"event_type" enum:"SOURCE_CREATED,SOURCE_UPDATED,SOURCE_DELETED,SOURCE_ENABLED,SOURCE_DISABLED"`
	SourceID    uuid.UUID  `json:"source_id" format:"uuid"`
	Sequence    int64      `json:"sequence" doc:"On the stream SOURCES"`
	Timestamp   time.Time  `json:"timestamp" doc:"When it happened, as it says"`
	Outcome     string     `json:"outcome" enum:"applied,stale,waiting,dead" doc:"stale: a later event had said everything; waiting: its source is not known yet; dead: nor did it become known"`
	JobID       *uuid.UUID `json:"job_id"`
	Detail      string     `json:"detail" doc:"What it changed, or why it changed nothing" example:"rate_limit: 10 → 5"`
	ProcessedAt time.Time  `json:"processed_at"`
}

// Stats are the numbers of all jobs.
type Stats struct {
	TotalSources int64            `json:"total_sources" doc:"Sources in the list of sources"`
	TotalJobs    int64            `json:"total_jobs"`
	ByStatus     map[string]int64 `json:"jobs_by_status" doc:"All jobs by pending, running, paused, failed and orphaned"`
	Health       struct {
		Healthy int64 `json:"healthy"`
		Warning int64 `json:"warning"`
		Failed  int64 `json:"failed"`
		Unknown int64 `json:"unknown" doc:"No run has ended yet"`
	} `json:"health"`
	Runs struct {
		Queued    int64    `json:"queued" doc:"Runs that wait in the queue crawl for a worker"`
		Running   int64    `json:"running" doc:"Runs that workers have"`
		OldestAge *float64 `json:"oldest_queued_age_s" doc:"For how many seconds the oldest run that can be taken has waited; null: none waits"`
		Warning   string   `json:"warning,omitempty" doc:"Says so when that is more than 5 minutes"`
	} `json:"runs" doc:"Runs that have not ended"`
	Last24h struct {
		Runs        int64    `json:"total_runs" doc:"Runs that ended with success or failed"`
		Successful  int64    `json:"successful_runs"`
		Failed      int64    `json:"failed_runs"`
		Articles    int64    `json:"articles_extracted"`
		SuccessRate *float64 `json:"success_rate" doc:"In thousandths; null: there were no runs" example:"0.99"`
	} `json:"last_24h"`
	Throughput struct {
		Articles int64 `json:"articles_per_hour"`
		Runs     int64 `json:"runs_per_hour"`
	} `json:"throughput" doc:"Of the last 24 hours, rounded"`
}
