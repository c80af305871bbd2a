-- Jobs that are locked; see settings.sql.
SELECT id, source_name, status, running, failure_count, interval_minutes, last_failure_at, backoff_until, buffered_due_at IS NOT NULL
FROM millrace.jobs WHERE id = ANY ($1)
