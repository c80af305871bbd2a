-- The jobs that are due, by their priority; another scheduler has those that are locked.
-- Each priority is read from its first due time on, so a batch costs the same however many
-- are due.
{priorities}
SELECT j.* FROM (SELECT priority FROM priorities ORDER BY priority DESC) AS p, LATERAL (
    SELECT j.id, j.source_id, j.source_name, j.url, j.rate_limit, j.max_depth, j.selectors, j.status,
        j.next_run_at, j.forced_at, j.buffered_due_at, j.backoff_until, j.catch_up_from, j.skip_next,
        coalesce(j.crawl_window_start, 0), coalesce(j.crawl_window_end, 0), j.crawl_window_days, j.crawl_window_zone,
        j.priority, j.max_concurrent, j.running, j.overlap_policy, j.catch_up_policy, j.catch_up_window_seconds, j.catch_up_cap,
        j.catch_up_spread_seconds, j.jitter_seconds, j.due_at, now()
    FROM millrace.jobs AS j
    WHERE j.priority = p.priority AND j.due_at <= now()
    ORDER BY j.due_at
    LIMIT $1
    FOR UPDATE SKIP LOCKED
) AS j
LIMIT $1
