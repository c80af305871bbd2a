UPDATE millrace.job_status AS j SET next_run_at = u.next_run_at, wait_until = u.wait_until, catch_up_from = u.catch_up_from,
    forced_at = u.forced_at, buffered_due_at = u.buffered_due_at, buffered_forced = u.buffered_forced, resting_due_at = u.resting_due_at,
    wake_at = u.wake_at, skip_next = u.skip_next, running = u.running, failure_count = j.failure_count + u.failures,
    last_failure_at = CASE WHEN u.failures > 0 THEN now() ELSE j.last_failure_at END,
    last_ended_at = CASE WHEN u.failures > 0 THEN now() ELSE j.last_ended_at END
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
    $7::boolean[], $8::timestamptz[], $9::timestamptz[], $10::boolean[], $11::smallint[], $12::integer[])
    AS u (id, next_run_at, wait_until, catch_up_from, forced_at, buffered_due_at, buffered_forced, resting_due_at, wake_at,
        skip_next, running, failures)
WHERE j.id = u.id
