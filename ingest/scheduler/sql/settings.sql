-- The settings of jobs that are locked; a statement that locks would not see those that have
-- changed meanwhile.
SELECT id, source_id, source_name, url, rate_limit, max_depth, selectors, coalesce(crawl_window_start, 0),
    coalesce(crawl_window_end, 0), crawl_window_days, crawl_window_zone, max_concurrent, overlap_policy, catch_up_policy,
    catch_up_window_seconds, catch_up_cap, catch_up_spread_seconds, jitter_seconds
FROM millrace.job_settings WHERE id = ANY ($1)
