-- One job of each twenty of the first $1 * 20 gets another schedule, as people set one: the
-- first is due at $3, each other $4 microseconds after the one before. $2, from 0 to 19,
-- says which of the twenty.
WITH n AS MATERIALIZED (
    SELECT i, (lpad(to_hex(1770000000000 + i), 12, '0') || '7' || substr(md5('job' || i), 1, 3) || '8' || substr(md5('job' || i), 4, 15))::uuid AS job,
        $3::timestamptz + k * $4::bigint * interval '1 microsecond' AS due
    FROM generate_series(0, $1::bigint - 1) AS k, LATERAL (SELECT k * 20 + (k + $2::bigint) % 20 AS i)
), changed AS (
    UPDATE millrace.jobs AS j SET next_run_at = n.due, schedule_version = 2, version = 2, updated_at = now() FROM n WHERE j.id = n.job
    RETURNING j.id, j.interval_minutes, n.due
)
INSERT INTO millrace.job_schedule (job_id, version, from_at, paused, kind, anchor_at, interval_minutes, time_zone, reason)
SELECT id, 2, now(), false, 'interval', due, interval_minutes, 'UTC', 'override' FROM changed
