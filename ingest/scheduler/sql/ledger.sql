-- A due time has one row. A run that somebody asked for at the very moment of a due
-- time has none.
INSERT INTO millrace.job_ledger (job_id, due_at, outcome, forced, execution_id, reason)
SELECT job_id, due_at, outcome, forced, execution_id, reason
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[], $4::boolean[], $5::uuid[], $6::text[])
    AS u (job_id, due_at, outcome, forced, execution_id, reason)
WHERE NOT forced OR NOT EXISTS (
    SELECT FROM millrace.job_ledger AS l WHERE l.job_id = u.job_id AND l.due_at = u.due_at
)
