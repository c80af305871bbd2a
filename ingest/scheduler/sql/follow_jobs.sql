UPDATE millrace.job_status AS j SET status = u.status, running = u.running, active = u.active, failure_count = u.failures,
    last_failure_at = u.last_failure_at, backoff_until = u.backoff_until, last_ended_at = u.last_ended_at,
    resting_due_at = CASE WHEN u.backoff_until IS NOT NULL THEN j.resting_due_at END,
    wake_at = CASE WHEN u.wakes AND j.buffered_forced THEN now() WHEN u.wakes THEN greatest(now(), u.backoff_until) ELSE j.wake_at END
FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::smallint[], $5::integer[], $6::timestamptz[], $7::timestamptz[],
    $8::timestamptz[], $9::boolean[])
    AS u (id, status, running, active, failures, last_failure_at, backoff_until, last_ended_at, wakes)
WHERE j.id = u.id
