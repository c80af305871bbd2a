-- Jobs that are locked; see settings.sql.
SELECT id, source_name, status, running, active, failure_count, max_attempts, retry_delay_seconds,
    coalesce(backoff_base_minutes, interval_minutes), backoff_max_minutes, last_failure_at, backoff_until, last_ended_at,
    buffered_due_at IS NOT NULL
FROM millrace.jobs WHERE id = ANY ($1)
