INSERT INTO millrace.stage (stage, name, max_attempts, lease_s, backoff_s, concurrency, concurrency_per_group,
    rate_count, rate_per_s, retention_s, max_items, made_by)
SELECT nextval('millrace.queue_number'), $1, $2, nullif($3::double precision, 0), nullif($4::double precision[], '{}'), nullif($5::integer, 0),
    nullif($6::integer, 0), nullif($7::integer, 0), CASE WHEN $7::integer > 0 THEN $8::double precision END, $9, nullif($10::integer, 0),
    nullif($12::text, '')
WHERE NOT EXISTS (SELECT FROM millrace.stage WHERE name = $1)
    AND (SELECT count(*) FROM millrace.stage WHERE stage >= 100) < $11
    AND (SELECT count(*) FROM millrace.stage WHERE made_by = $12::text) < $13
ON CONFLICT (name) DO NOTHING
