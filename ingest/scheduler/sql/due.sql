-- The jobs that are due, by their priority; another scheduler has those that are locked.
-- Each priority is read from its first due time on, so a batch costs the same however many
-- are due.
{priorities}
SELECT j.* FROM (SELECT priority FROM priorities ORDER BY priority DESC) AS p, LATERAL (
    SELECT j.id, j.status, j.next_run_at, j.forced_at, j.buffered_due_at, j.buffered_forced, j.resting_due_at, j.backoff_until,
        j.catch_up_from, j.skip_next, j.priority, j.running, now()
    FROM millrace.job_status AS j
    WHERE j.priority = p.priority AND j.due_at <= now()
    ORDER BY j.due_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS j
LIMIT $1
