UPDATE millrace.stage SET updated_at = now(),
    paused = coalesce($2, paused),
    max_attempts = coalesce($3, max_attempts),
    concurrency = nullif(coalesce($4, concurrency), 0),
    concurrency_per_group = nullif(coalesce($5, concurrency_per_group), 0),
    rate_count = nullif(coalesce($6, rate_count), 0),
    rate_per_s = CASE WHEN coalesce($6, rate_count, 0) > 0 THEN coalesce($7, rate_per_s) END,
    retention_s = coalesce($8, retention_s),
    max_items = nullif(coalesce($9, max_items), 0)
WHERE stage = $1
RETURNING 
