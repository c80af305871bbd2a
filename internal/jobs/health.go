package jobs

import (
	"fmt"

	"github.com/millrace-io/millrace/schemas/job"
)

// HealthSQL is an expression of the health of the row j of millrace.jobs, by the rules
// of job.HealthOf.
var HealthSQL = fmt.Sprintf(`CASE
	WHEN j.status = '%s' OR j.failure_count >= %d THEN '%s'
	WHEN j.failure_count > 0 OR (
		SELECT count(*) FILTER (WHERE e.status = 'success') < %v * count(*) FROM millrace.executions AS e
		WHERE e.source_id = j.source_id AND e.completed_at > now() - interval '24 hours'
			AND e.status IN ('success', 'failed')
	) THEN '%s'
	WHEN j.last_ended_at IS NULL AND NOT EXISTS (
		SELECT FROM millrace.executions AS e
		WHERE e.source_id = j.source_id AND e.completed_at > now() - interval '24 hours'
			AND e.status IN ('success', 'failed')
	) THEN '%s'
	ELSE '%s' END`, job.Orphaned, job.UnhealthyAfter, job.Failed, job.LeastSuccess, job.Warning, job.Unknown,
	job.Healthy)
