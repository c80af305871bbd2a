-- The schedules of jobs that count for due times without an outcome.
SELECT s.job_id, s.from_at, s.to_at, s.paused, coalesce(s.anchor_at, s.from_at), coalesce(s.interval_minutes, 0),
    coalesce(s.cron, ''), s.time_zone
FROM millrace.job_schedule AS s JOIN millrace.jobs AS j ON j.id = s.job_id
WHERE s.job_id = ANY ($1) AND (s.to_at IS NULL OR s.to_at > j.next_run_at)
ORDER BY s.job_id, s.version
