-- Says at the due times of runs that were cancelled why.
UPDATE millrace.job_ledger AS l SET reason = u.reason
FROM unnest($1::uuid[], $2::text[]) AS u (id, reason) JOIN millrace.executions AS e ON e.id = u.id
WHERE l.job_id = e.job_id AND l.due_at = e.due_at AND l.execution_id = e.id
