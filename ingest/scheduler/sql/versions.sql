-- The schedules of jobs that count for due times without an outcome.
SELECT s.job_id, s.from_at, s.to_at, s.paused, coalesce(s.anchor_at, s.from_at), coalesce(s.interval_minutes, 0),
    coalesce(s.cron, ''), s.time_zone
FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, next) JOIN millrace.job_schedule AS s ON s.job_id = u.id
WHERE s.to_at IS NULL OR s.to_at > u.next
ORDER BY s.job_id, s.version
