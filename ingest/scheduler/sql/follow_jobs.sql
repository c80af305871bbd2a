UPDATE millrace.job_status AS j SET status = u.status, running = u.running, failure_count = u.failures,
    last_failure_at = u.last_failure_at, backoff_until = u.backoff_until,
    wake_at = CASE WHEN u.wakes THEN greatest(now(), u.backoff_until) ELSE j.wake_at END
FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::integer[], $5::timestamptz[], $6::timestamptz[], $7::boolean[])
    AS u (id, status, running, failures, last_failure_at, backoff_until, wakes)
WHERE j.id = u.id
