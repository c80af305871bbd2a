INSERT INTO millrace.executions (id, job_id, source_id, due_at, forced, status, item_id, completed_at, duration_seconds, error)
SELECT id, job_id, source_id, due_at, forced, CASE WHEN item_id IS NULL THEN 'failed' ELSE 'queued' END, item_id,
    CASE WHEN item_id IS NULL THEN now() END, CASE WHEN item_id IS NULL THEN 0 END, error
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::boolean[], $6::bigint[], $7::text[])
    AS u (id, job_id, source_id, due_at, forced, item_id, error)
