-- One job of each twenty, of those from number $1 * 20 to before $2 * 20, gets another schedule,
-- as people set one: $4 is when job 0 would be due, and each other $5 microseconds after the
-- one before. $3, from 0 to 19, says which of the twenty.
WITH n AS MATERIALIZED (
    SELECT i, (lpad(to_hex(1770000000000 + i), 12, '0') || '7' || substr(md5('job' || i), 1, 3) || '8' || substr(md5('job' || i), 4, 15))::uuid AS job,
        $4::timestamptz + k * $5::bigint * interval '1 microsecond' AS due
    FROM generate_series($1::bigint, $2::bigint - 1) AS k, LATERAL (SELECT k * 20 + (k + $3::bigint) % 20 AS i)
), moved AS (
    UPDATE millrace.job_status AS j SET next_run_at = n.due FROM n WHERE j.id = n.job
), changed AS (
    UPDATE millrace.job_settings AS j SET schedule_version = j.schedule_version + 1, version = j.version + 1, updated_at = now()
    FROM n WHERE j.id = n.job
    RETURNING j.id, j.schedule_version, j.interval_minutes, n.due
)
INSERT INTO millrace.job_schedule (job_id, version, from_at, paused, kind, anchor_at, interval_minutes, time_zone, reason)
SELECT id, schedule_version, now(), false, 'interval', due, interval_minutes, 'UTC', 'override' FROM changed
